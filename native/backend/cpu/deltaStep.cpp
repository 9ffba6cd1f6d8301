#include "deltaStep.h"

#include <algorithm>

namespace spillway {

// Plain loops, whose vectors cannot change a bit: they may be as wide as the processor has them.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_THREAD__)
__attribute__((target_clones("avx512f", "avx2", "default")))
#endif
void deltaStep(float* __restrict state, const float* __restrict query, const float* __restrict key,
               const float* __restrict value, float decay, float beta, size_t keyDim, size_t valueDim,
               float* __restrict change, float* __restrict output) {
  std::fill_n(output, valueDim, 0.0f);
  for (size_t k = 0; k < keyDim; k++) {
    float* __restrict row = state + k * valueDim;
    const float factor = key[k];
    for (size_t v = 0; v < valueDim; v++) {
      row[v] *= decay;
      output[v] += row[v] * factor;
    }
  }
  for (size_t v = 0; v < valueDim; v++) {
    change[v] = (value[v] - output[v]) * beta;
    output[v] = 0;
  }
  for (size_t k = 0; k < keyDim; k++) {
    float* __restrict row = state + k * valueDim;
    const float factor = key[k], seen = query[k];
    for (size_t v = 0; v < valueDim; v++) {
      row[v] += factor * change[v];
      output[v] += row[v] * seen;
    }
  }
}

}  // namespace spillway
