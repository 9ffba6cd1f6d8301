// The machine's arithmetic peak as one line of JSON, for benchmarks that state a share of it: in 8 bits and in float32
// with vectors, in bfloat16 with AMX (0: none).
//   peak [threads=1]
#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "matmulPeak.h"

int main(int argc, char** argv) {
  using namespace spillway;
  const unsigned threads = argc > 1 ? static_cast<unsigned>(std::max(1, std::atoi(argv[1]))) : 1;
  const bool tiles = machineHas(InstructionSet::Amx);
  const InstructionSet set = tiles ? InstructionSet::Avx512 : bestInstructionSet();
  std::printf(
      "{\"instructionSet\":\"%s\",\"threads\":%u,\"int8OperationsPerSecond\":%.0f,\"floatOperationsPerSecond\":%.0f,"
      "\"amxOperationsPerSecond\":%.0f}\n",
      instructionSetName(set), threads, bench::peakQuantised(set, threads), bench::peakFloat(set, threads),
      tiles ? bench::peakQuantised(InstructionSet::Amx, threads) : 0.0);
  return 0;
}
