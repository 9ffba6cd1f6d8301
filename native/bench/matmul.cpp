// Matrix products by shape, type, rows and instruction set, against what the arithmetic units and the memory can give.
//   matmul [threads=1] [case or all=all] [instruction set or all=best] [precision: default or float32=default]
// "cold": copies of the weights, 96 MiB in all, are used in turn, as in a model, where a matrix is used once a pass. "warm": the same weights again and again.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <string>

#include "../runtime/ThreadPool.h"
#include "../tests/matmulCases.h"
#include "matmulPeak.h"

namespace {
using namespace spillway;

// With one thread the processor time that this process got, so that neighbours do not count; helpers spin while they wait, so with more it is wall time.
bool processorTime = false;
double secondsNow() {
  timespec now;
  clock_gettime(processorTime ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

double tenthPercentile(std::vector<double>& times) {
  const auto at = times.begin() + static_cast<long>(times.size() / 10);
  std::nth_element(times.begin(), at, times.end());
  return *at;
}

// Seconds of one product, and of quantising its input: the tenth percentile, since neighbours on the machine only ever add. `copies` of the weights are used in turn.
double measure(const Compute& compute, const std::vector<cases::PackedMatrix>& copies, size_t rows, double* quantiseSeconds) {
  const WeightMatrix& shape = copies[0].weights;
  const std::vector<float> values = cases::randomFloats(rows * shape.inputs, 1);
  std::vector<float> output(rows * shape.outputs);
  const size_t scratchBytes = (rows + 4) * shape.inputs * 4 + 64 * kMatmulWorkspaceBytes;
  const cases::AlignedBytes block = cases::alignedBytes(scratchBytes);
  std::vector<double> times, quantiseTimes;
  size_t turn = 0;
  for (const double begin = secondsNow(); times.size() < 5 || (secondsNow() - begin < 0.4 && times.size() < 2000); turn++) {
    Scratch scratch(block.get(), scratchBytes);
    const double start = secondsNow();
    const MatrixInput input = prepareInput(compute, values.data(), rows, shape.inputs, shape.inputs, usesQuantisedInput(shape.type, compute.precision), scratch);
    const double middle = secondsNow();
    const MatmulJob job{&copies[turn % copies.size()].weights, nullptr, output.data(), shape.outputs};
    matmul(compute, &job, 1, input, scratch);
    times.push_back(secondsNow() - middle);
    quantiseTimes.push_back(middle - start);
  }
  *quantiseSeconds = tenthPercentile(quantiseTimes);
  return tenthPercentile(times);
}

void run(InstructionSet set, unsigned threads, const std::string& wanted, Precision precision) {
  processorTime = threads == 1;
  ThreadPool pool(threads);
  const Compute compute{kernelsFor(set), pool, precision};
  const double int8 = bench::peakInt8(set, threads), floats = bench::peakFloat(set, threads);
  std::printf("%s, %u threads: peak int8 %.0f GOP/s, float %.0f GFLOP/s (registers alone)\n", instructionSetName(set), threads, int8 / 1e9, floats / 1e9);
  for (const cases::MatmulCase& shape : cases::kMatmulCases) {
    if (wanted != "all" && wanted != shape.name) continue;
    const size_t bytes = packedBytes(shape.type, shape.outputs, shape.inputs);
    for (const bool cold : {false, true}) {
      std::vector<cases::PackedMatrix> copies;
      const size_t count = cold ? std::max<size_t>(1, (size_t{96} << 20) / bytes) : 1;
      const std::vector<uint8_t> rows = cases::randomFileRows(shape.type, shape.outputs, shape.inputs, 1);
      for (size_t i = 0; i < count; i++) copies.push_back(cases::packMatrix(shape.type, shape.outputs, shape.inputs, rows.data()));
      std::printf("%-18s %-5s %5u x %4u %s", shape.name, weightTypeName(shape.type), shape.outputs, shape.inputs, cold ? "cold" : "warm");
      for (const size_t batch : {1, 4, 16, 64, 256}) {
        double quantiseSeconds;
        const double seconds = measure(compute, copies, batch, &quantiseSeconds);
        const double rate = 2.0 * shape.outputs * shape.inputs * static_cast<double>(batch) / seconds;
        const double peak = usesQuantisedInput(shape.type, precision) ? int8 : floats;
        if (batch == 1)
          std::printf(" | 1 row %.1f us %.1f GB/s", seconds * 1e6, static_cast<double>(bytes) / seconds / 1e9);
        else
          std::printf(" | %zu: %.0f GOP/s %.0f%% (+%.0f%% to quantise)", batch, rate / 1e9, peak > 0 ? rate / peak * 100 : 0.0, quantiseSeconds / seconds * 100);
      }
      std::printf("\n");
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  const unsigned threads = argc > 1 ? static_cast<unsigned>(std::max(1, std::atoi(argv[1]))) : 1;
  const std::string wanted = argc > 2 ? argv[2] : "all";
  const std::string sets = argc > 3 ? argv[3] : "best";
  const Precision precision = argc > 4 && std::string(argv[4]) == "float32" ? Precision::Float32 : Precision::Default;
  for (const InstructionSet set : {InstructionSet::Avx512, InstructionSet::Avx2, InstructionSet::Scalar}) {
    if (!machineHas(set)) continue;
    if (sets == "all" || sets == instructionSetName(set) || (sets == "best" && set == bestInstructionSet())) run(set, threads, wanted, precision);
  }
  return 0;
}
