#include "stateStep.h"

#include <algorithm>

namespace spillway {

// Plain loops, whose vectors cannot change a bit: they may be as wide as the processor has them.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_THREAD__)
__attribute__((target_clones("avx512f", "avx2", "default")))
#endif
void stateStep(float* __restrict state, const float* __restrict input, const float* __restrict written,
               const float* __restrict read, float decay, size_t stateDim, size_t headDim, float* __restrict output) {
  std::fill_n(output, headDim, 0.0f);
  for (size_t n = 0; n < stateDim; n++) {
    float* __restrict row = state + n * headDim;
    const float factor = written[n], seen = read[n];
    for (size_t p = 0; p < headDim; p++) {
      row[p] = row[p] * decay + input[p] * factor;
      output[p] += row[p] * seen;
    }
  }
}

}  // namespace spillway
