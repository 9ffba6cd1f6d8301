#include "RowKernels.h"

namespace spillway::cuda {
namespace {

// A block a row.
__global__ void gatherRowsKernel(const float* x, const uint32_t* indices, size_t n, float* y) {
  const float* from = x + indices[blockIdx.x] * n;
  for (size_t i = threadIdx.x; i < n; i += blockDim.x) y[blockIdx.x * n + i] = from[i];
}

}  // namespace

void gatherRows(cudaStream_t stream, const float* x, const uint32_t* indices, size_t rows, size_t n, float* y) {
  launch("gatherRows", gatherRowsKernel, static_cast<unsigned>(rows), 256, 0, stream, x, indices, n, y);
}

}  // namespace spillway::cuda
