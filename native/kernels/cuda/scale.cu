#include "RowKernels.h"

namespace spillway::cuda {
namespace {

__global__ void scaleKernel(float factor, float* x, size_t n) {
  const size_t i = size_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i < n) x[i] *= factor;
}

}  // namespace

void scale(cudaStream_t stream, float factor, float* x, size_t n) {
  launch("scale", scaleKernel, divideUp(n, 256), 256, 0, stream, factor, x, n);
}

}  // namespace spillway::cuda
