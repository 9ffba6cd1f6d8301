// The Walsh-Hadamard transform of a group of up to 64 numbers by a warp, with the same bits as the CPU's
// (kernels/cpu/hadamard.h).
#pragma once
#include "gpu.h"

namespace spillway::cuda {

// n numbers are transformed in blocks of the largest power of two that divides n: this one's logarithm, n at least 1.
__device__ __forceinline__ uint32_t hadamardBits(uint32_t n) {
  return static_cast<uint32_t>(__ffs(static_cast<int>(n))) - 1;
}
// What keys, and the queries that meet them, are multiplied by.
__device__ __forceinline__ float hadamardKeyFactor(uint32_t bits) { return 1.0f / static_cast<float>(1u << bits / 2); }
__device__ __forceinline__ float hadamardQueryFactor(uint32_t bits) {
  return 1.0f / static_cast<float>(1u << (bits + 1) / 2);
}

// A lane has the numbers `lane` and `lane + 32`. One round for each bit of the index, the lowest first: sums and
// differences.
__device__ __forceinline__ void hadamard(float x[2], uint32_t bits) {
  const uint32_t lane = threadIdx.x % kWarp;
#pragma unroll
  for (uint32_t bit = 0; bit < 5; bit++) {
    if (bit >= bits) break;
#pragma unroll
    for (int i = 0; i < 2; i++) {
      const float other = __shfl_xor_sync(kAllLanes, x[i], 1 << bit);
      x[i] = (lane >> bit & 1) != 0 ? other - x[i] : other + x[i];
    }
  }
  if (bits < 6) return;
  const float low = x[0];
  x[0] = low + x[1];
  x[1] = low - x[1];
}

}  // namespace spillway::cuda
