#include "coverage.h"

namespace {

uint8_t covered[spillway::kCoverageBlocks];

}  // namespace

// g++ calls it in every basic block of a source that is compiled with -fsanitize-coverage=trace-pc. Threads may set the
// same byte at once, to the same value.
extern "C" void __sanitizer_cov_trace_pc() {
  const uint64_t place =
      reinterpret_cast<uintptr_t>(__builtin_return_address(0)) - reinterpret_cast<uintptr_t>(&__sanitizer_cov_trace_pc);
  uint8_t* block = &covered[(place * 0x9E3779B97F4A7C15u) >> 46];
  if (__atomic_load_n(block, __ATOMIC_RELAXED) == 0) __atomic_store_n(block, uint8_t(1), __ATOMIC_RELAXED);
}

namespace spillway {

uint8_t* coveredBlocks() { return covered; }

}  // namespace spillway
