// The machine's arithmetic peak as one line of JSON, for benchmarks that state a share of it.
//   peak [threads=1]
#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "matmulPeak.h"

int main(int argc, char** argv) {
  using namespace spillway;
  const unsigned threads = argc > 1 ? static_cast<unsigned>(std::max(1, std::atoi(argv[1]))) : 1;
  const InstructionSet set = bestInstructionSet();
  std::printf("{\"instructionSet\":\"%s\",\"threads\":%u,\"int8OperationsPerSecond\":%.0f,\"floatOperationsPerSecond\":%.0f}\n", instructionSetName(set), threads,
              bench::peakInt8(set, threads), bench::peakFloat(set, threads));
  return 0;
}
