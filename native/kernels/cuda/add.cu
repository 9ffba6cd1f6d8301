#include "RowKernels.h"

namespace spillway::cuda {
namespace {

__global__ void addKernel(const float* x, float* y, size_t n) {
  const size_t i = size_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i < n) y[i] += x[i];
}

__global__ void addScaledKernel(const float* x, float scale, float* y, size_t n) {
  const size_t i = size_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i < n) y[i] = fmaf(x[i], scale, y[i]);
}

}  // namespace

void add(cudaStream_t stream, const float* x, float* y, size_t n) {
  launch("add", addKernel, divideUp(n, 256), 256, 0, stream, x, y, n);
}

void addScaled(cudaStream_t stream, const float* x, float scale, float* y, size_t n) {
  launch("addScaled", addScaledKernel, divideUp(n, 256), 256, 0, stream, x, scale, y, n);
}

}  // namespace spillway::cuda
