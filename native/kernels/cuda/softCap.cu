#include "softCap.h"

#include "RowKernels.h"

namespace spillway::cuda {
namespace {

__global__ void softCapKernel(float cap, float* x, size_t n) {
  const size_t i = size_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i < n) x[i] = softCapped(x[i], cap);
}

}  // namespace

void softCap(cudaStream_t stream, float cap, float* x, size_t n) {
  launch("softCap", softCapKernel, divideUp(n, 256), 256, 0, stream, cap, x, n);
}

}  // namespace spillway::cuda
