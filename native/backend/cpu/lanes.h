// Sixteen floats as one, in whatever registers the processor has: plain sums and products, each rounded by itself.
#pragma once
#include <cstddef>
#include <cstring>

namespace spillway {

#if defined(__GNUC__)

using Lanes = float __attribute__((vector_size(64)));
constexpr size_t kLanes = 16;

// By reference, since how vectors are passed depends on what a function is compiled for.
__attribute__((always_inline)) inline void loadLanes(const float* from, Lanes& to) {
  std::memcpy(&to, from, sizeof to);
}
__attribute__((always_inline)) inline void storeLanes(const Lanes& from, float* to) {
  std::memcpy(to, &from, sizeof from);
}
// Asks for a line of memory that is needed soon, for the second-level cache (prefetchLine.h says why). None need be
// there.
__attribute__((always_inline)) inline void askFor(const float* line) { __builtin_prefetch(line, 0, 2); }

#endif

// A function of plain loops, or of lanes, whose vectors cannot change a bit: they may be as wide as the processor has
// them.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_THREAD__)
#define SPILLWAY_WIDEST __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define SPILLWAY_WIDEST
#endif

}  // namespace spillway
