// Norms of a row: what its values become.
#pragma once
#include "keptRow.h"

namespace spillway::cuda {

struct RmsNorm {
  const float* weight;
  float epsilon, factor;

  __device__ __forceinline__ void measure(const KeptRow& row, float* partials) {
    const float squares = row.sum(partials, [](float sum, float x) { return fmaf(x, x, sum); });
    factor = 1.0f / sqrtf(squares / static_cast<float>(static_cast<uint32_t>(row.n)) + epsilon);
  }
  __device__ __forceinline__ void operator()(size_t i, unsigned count, const float (&v)[8], float (&normed)[8]) const {
    float weights[8];
    loadEight(weight, i, count, weights);
#pragma unroll
    for (unsigned k = 0; k < 8; k++) normed[k] = v[k] * factor * weights[k];
  }
};

// Mean first, then squares of differences.
struct LayerNorm {
  const float* weight;
  const float* bias;  // or null
  float epsilon, mean, factor;

  __device__ __forceinline__ void measure(const KeptRow& row, float* partials) {
    mean = row.sum(partials, [](float sum, float x) { return sum + x; }) /
           static_cast<float>(static_cast<uint32_t>(row.n));
    const float squares = row.sum(partials, [this](float sum, float x) { return fmaf(x - mean, x - mean, sum); });
    factor = 1.0f / sqrtf(squares / static_cast<float>(static_cast<uint32_t>(row.n)) + epsilon);
  }
  __device__ __forceinline__ void operator()(size_t i, unsigned count, const float (&v)[8], float (&normed)[8]) const {
    float weights[8], biases[8] = {};
    loadEight(weight, i, count, weights);
    if (bias != nullptr) loadEight(bias, i, count, biases);
#pragma unroll
    for (unsigned k = 0; k < 8; k++) {
      const float value = (v[k] - mean) * factor;
      normed[k] = bias == nullptr ? value * weights[k] : fmaf(value, weights[k], biases[k]);
    }
  }
};

}  // namespace spillway::cuda
