// Matrix products by shape, type, rows and instruction set, against what the arithmetic units and the memory give in
// the same moments: a line of JSON each.
//   matmul [threads=1] [instruction set or all=all] [full or quick=full] [shape or all=all] [precision: default or
//   float32=default] [weight type or all=all] [numbers of rows, e.g. 32,64]
// Shapes of models with the common types, and one case of every type (tests/matmulCases.h). Copies of the weights, 96
// MiB in all, are used in turn, as in a model, where a matrix is used once a pass. Product, peak loop and memory loop
// take turns; figures are medians over the turns.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <sstream>
#include <string>

#include "../system/Arena.h"
#include "../system/ThreadPool.h"
#include "../tests/kernels/matmulCases.h"
#include "matmulPeak.h"

namespace {
using namespace spillway;

constexpr size_t kColdBytes = size_t{96} << 20;

struct Options {
  unsigned threads;
  std::string sets;
  bool quick;
  std::string wanted;
  Precision precision;
  std::string type;
  std::vector<size_t> rows;  // none: the usual ones
};

std::vector<size_t> numbersOf(const std::string& list) {
  std::vector<size_t> numbers;
  std::stringstream words(list);
  for (std::string word; std::getline(words, word, ',');) numbers.push_back(std::stoul(word));
  return numbers;
}

// With one thread the processor time that this process got, so that neighbours do not count; helpers spin while they
// wait, so with more it is wall time.
double secondsNow(unsigned threads) {
  timespec now;
  clock_gettime(threads == 1 ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

double median(std::vector<double> values) {
  const auto at = values.begin() + static_cast<long>(values.size() / 2);
  std::nth_element(values.begin(), at, values.end());
  return *at;
}

// Copies of one matrix, which together are larger than caches, in huge pages as an engine has its weights.
class Weights {
 public:
  Weights(const cases::MatmulCase& shape, size_t wantedBytes)
      : bytes_(packedBytes(shape.type, shape.outputs, shape.inputs)),
        memory_((wantedBytes + bytes_ - 1) / bytes_ * bytes_, "the weights") {
    const cases::PackedMatrix first = cases::randomMatrix(shape, 1);
    for (size_t at = 0; at < memory_.bytes(); at += bytes_) {
      copies_.push_back(first.weights);
      copies_.back().panels = memory_.data() + at;
      std::memcpy(memory_.data() + at, first.panels.get(), bytes_);
    }
  }
  const WeightMatrix& next() { return copies_[turn_++ % copies_.size()]; }
  size_t bytes() const { return bytes_; }
  // Bytes a second of a loop that does nothing but read the next copies, 16 MiB or more of them.
  double readSpeed(ThreadPool& pool) {
    constexpr size_t kPart = 1 << 16;
    const size_t parts = (bytes_ + kPart - 1) / kPart, matrices = std::max<size_t>(1, (size_t{16} << 20) / bytes_);
    const double begin = secondsNow(pool.threads());
    for (size_t i = 0; i < matrices; i++) {
      const uint8_t* panels = next().panels;
      pool.parallelFor(parts, [&](size_t part, unsigned) {
        uint64_t sums[8] = {}, words[8];
        for (size_t at = part * kPart; at + 64 <= std::min(bytes_, (part + 1) * kPart); at += 64) {
          __builtin_prefetch(panels + at + 1024, 0, 2);
          std::memcpy(words, panels + at, 64);
          for (int w = 0; w < 8; w++) sums[w] += words[w];
        }
        volatile uint64_t sink = sums[0] + sums[1] + sums[2] + sums[3] + sums[4] + sums[5] + sums[6] + sums[7];
        (void)sink;
      });
    }
    return static_cast<double>(matrices * bytes_) / (secondsNow(pool.threads()) - begin);
  }

 private:
  size_t bytes_, turn_ = 0;
  Arena memory_;
  std::vector<WeightMatrix> copies_;
};

struct Figures {
  std::vector<double> rates, shares, quantise, speeds, speedShares;
};

void measure(const Compute& compute, Weights& weights, const char* name, size_t rows, const Options& options) {
  const WeightMatrix shape = weights.next();
  const QuantisedInput form = quantisedInput(compute, shape.type);
  const std::vector<float> values = cases::randomFloats(rows * shape.inputs, 1);
  const cases::AlignedBytes output = cases::alignedBytes(rows * shape.outputs * sizeof(float));  // as in a model
  Scratch sizes(nullptr, 0);
  const auto product = [&](Scratch& scratch, double* quantiseSeconds) {
    const double start = secondsNow(options.threads);
    const MatrixInput input = prepareInput(compute, values.data(), rows, shape.inputs, shape.inputs, form, scratch);
    const double middle = secondsNow(options.threads);
    const MatmulJob job{&weights.next(), nullptr, reinterpret_cast<float*>(output.get()), shape.outputs};
    matmul(compute, &job, 1, input, scratch);
    *quantiseSeconds += middle - start;
    return secondsNow(options.threads) - middle;
  };
  double ignored = 0;
  product(sizes, &ignored);
  const cases::AlignedBytes block = cases::alignedBytes(sizes.peak());
  const auto run = [&](double* quantiseSeconds) {
    Scratch scratch(block.get(), sizes.peak());
    return product(scratch, quantiseSeconds);
  };
  run(&ignored);

  const double operations = 2.0 * shape.outputs * shape.inputs * static_cast<double>(rows);
  const InstructionSet set = compute.kernels.instructionSet;
  Figures figures;
  double peak = 0, speed = 0;
  for (int turn = 0; turn < (options.quick ? 3 : 7); turn++) {
    peak = form != QuantisedInput::None
               ? bench::peakQuantised(set, options.threads, panelFormat(shape.type).numberBits(), 1)
               : bench::peakFloat(set, options.threads, 1);
    if (rows <= kTileRows) speed = weights.readSpeed(compute.pool);
    double seconds = 0, quantiseSeconds = 0;
    size_t runs = 0;
    do {
      seconds += run(&quantiseSeconds);
      runs++;
    } while (seconds < (options.quick ? 0.01 : 0.03));
    figures.rates.push_back(operations * static_cast<double>(runs) / seconds);
    figures.shares.push_back(peak > 0 ? figures.rates.back() / peak : 0);
    figures.quantise.push_back(quantiseSeconds / seconds);
    figures.speeds.push_back(static_cast<double>(weights.bytes() * runs) / seconds);
    figures.speedShares.push_back(speed > 0 ? figures.speeds.back() / speed : 0);
  }
  std::printf(
      "{\"op\":\"matmul\",\"instructionSet\":\"%s\",\"threads\":%u,\"name\":\"%s\",\"type\":\"%s\",\"outputs\":%u,"
      "\"inputs\":%u,\"rows\":%zu,\"operationsPerSecond\":%.0f,"
      "\"shareOfPeak\":%.4f,\"weightBytesPerSecond\":%.0f,\"shareOfBandwidth\":%.4f,\"quantiseShare\":%.4f}\n",
      instructionSetName(set), options.threads, name, weightTypeName(shape.type), shape.outputs, shape.inputs, rows,
      median(figures.rates), median(figures.shares), median(figures.speeds), median(figures.speedShares),
      median(figures.quantise));
  std::fflush(stdout);
}

void run(InstructionSet set, const Options& options) {
  ThreadPool pool(options.threads);
  const Compute compute{kernelsFor(set), pool, options.precision};
  std::printf(
      "{\"op\":\"peak\",\"instructionSet\":\"%s\",\"threads\":%u,\"int8\":%.0f,\"int8Widened\":%.0f,\"float\":%.0f}\n",
      instructionSetName(set), options.threads, bench::peakQuantised(set, options.threads),
      bench::peakQuantised(set, options.threads, 8), bench::peakFloat(set, options.threads));
  std::vector<cases::MatmulCase> wanted;
  for (const cases::MatmulShape& shape : cases::kModelShapes)
    for (const WeightType type : cases::kCommonTypes)
      wanted.push_back({shape.name, type, shape.outputs, shape.inputs, false});
  if (!options.quick)  // a shape of one's own to each type, as the tests have it
    for (const cases::MatmulCase& each : cases::kMatmulCases)
      if (std::string(each.name) == weightTypeName(each.type)) wanted.push_back(each);
  for (const cases::MatmulCase& shape : wanted) {
    if (options.wanted != "all" && options.wanted != shape.name) continue;
    if (options.type != "all" && options.type != weightTypeName(shape.type)) continue;
    Weights weights(shape, kColdBytes);
    const std::vector<size_t> batches = !options.rows.empty() ? options.rows
                                        : options.quick       ? std::vector<size_t>{1, 64}
                                                              : std::vector<size_t>{1, 4, 16, 64, 128, 256};
    for (const size_t rows : batches) measure(compute, weights, shape.name, rows, options);
  }
}

}  // namespace

int main(int argc, char** argv) {
  const auto argument = [&](int i, const char* fallback) { return std::string(argc > i ? argv[i] : fallback); };
  const Options options{static_cast<unsigned>(std::max(1, std::atoi(argument(1, "1").c_str()))),
                        argument(2, "all"),
                        argument(3, "full") == "quick",
                        argument(4, "all"),
                        argument(5, "default") == "float32" ? Precision::Float32 : Precision::Default,
                        argument(6, "all"),
                        numbersOf(argument(7, ""))};
  for (const InstructionSet set :
       {InstructionSet::Amx, InstructionSet::Avx512, InstructionSet::AvxVnni, InstructionSet::Avx2})
    if (machineHas(set) && (options.sets == "all" || options.sets == instructionSetName(set))) run(set, options);
  return 0;
}
