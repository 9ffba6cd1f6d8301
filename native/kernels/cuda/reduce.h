// Sums and maxima over a warp or a block, in an order that depends on the number of threads alone. Every thread gets
// the result.
#pragma once
#include "gpu.h"

namespace spillway::cuda {

template <typename T>
__device__ __forceinline__ T warpSum(T value) {
#pragma unroll
  for (int lanes = 16; lanes > 0; lanes /= 2) value += __shfl_xor_sync(kAllLanes, value, lanes);
  return value;
}

__device__ __forceinline__ float warpMaximum(float value) {
#pragma unroll
  for (int lanes = 16; lanes > 0; lanes /= 2) value = fmaxf(value, __shfl_xor_sync(kAllLanes, value, lanes));
  return value;
}

// partials: shared memory for one T a warp, not in use when this begins, free again when it returns. All threads of a
// one-dimensional block take part.
template <typename T, typename WarpReduce, typename Combine>
__device__ __forceinline__ T blockReduce(T value, T* partials, WarpReduce warpReduce, Combine combine) {
  value = warpReduce(value);
  if (threadIdx.x % kWarp == 0) partials[threadIdx.x / kWarp] = value;
  __syncthreads();
  T result = partials[0];
  for (unsigned warp = 1; warp < blockDim.x / kWarp; warp++) result = combine(result, partials[warp]);
  __syncthreads();
  return result;
}

template <typename T>
__device__ __forceinline__ T blockSum(T value, T* partials) {
  return blockReduce(value, partials, [](T x) { return warpSum(x); }, [](T a, T b) { return a + b; });
}

__device__ __forceinline__ float blockMaximum(float value, float* partials) {
  return blockReduce(
      value, partials, [](float x) { return warpMaximum(x); }, [](float a, float b) { return fmaxf(a, b); });
}

}  // namespace spillway::cuda
