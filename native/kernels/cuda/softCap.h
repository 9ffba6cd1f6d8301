// cap * tanh(x / cap), of scores and of logits.
#pragma once
#include "gpu.h"

namespace spillway::cuda {

// What is not finite stays as it is, so that it shows.
__device__ __forceinline__ float softCapped(float x, float cap) {
  return fabsf(x) < INFINITY ? cap * tanhf(x / cap) : x;
}

}  // namespace spillway::cuda
