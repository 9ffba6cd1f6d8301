// Sixteen floats as one, in whatever registers the processor has: plain sums and products, each rounded by itself. GCC
// and Clang have such vectors; what is compiled for wider ones than all processors have is chosen here, by a branch,
// since the compilers' own choice (target_clones) does not link where zig does.
#pragma once
#include <cstddef>
#include <cstring>

#include "../../system/CpuFeatures.h"

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

// Defines `void name parameters`: what name##Loops does, an inline function of plain loops or of lanes, whose vectors
// cannot change a bit, so that they may be as wide as the processor has them.
#define SPILLWAY_LOOPS __attribute__((always_inline)) inline void
#if defined(__x86_64__)
inline const bool kHasAvx512 = cpuFeatures().avx512f, kHasAvx2 = cpuFeatures().avx2;
#define SPILLWAY_WIDEST(name, parameters, arguments)                                                \
  __attribute__((target("avx512f"))) static void name##Avx512 parameters { name##Loops arguments; } \
  __attribute__((target("avx2"))) static void name##Avx2 parameters { name##Loops arguments; }      \
  void name parameters {                                                                            \
    if (kHasAvx512) return name##Avx512 arguments;                                                  \
    if (kHasAvx2) return name##Avx2 arguments;                                                      \
    name##Loops arguments;                                                                          \
  }
#else
#define SPILLWAY_WIDEST(name, parameters, arguments) \
  void name parameters { name##Loops arguments; }
#endif

}  // namespace spillway
