#include "RowKernels.h"

namespace spillway::cuda {
namespace {

// A block a row.
__global__ void scatterScaledRowsKernel(const float* x, const float* scales, const uint32_t* indices, size_t n,
                                        float* y) {
  const float factor = scales[blockIdx.x];
  float* to = y + indices[blockIdx.x] * n;
  for (size_t i = threadIdx.x; i < n; i += blockDim.x) to[i] = fmaf(x[blockIdx.x * n + i], factor, to[i]);
}

}  // namespace

void scatterScaledRows(cudaStream_t stream, const float* x, const float* scales, const uint32_t* indices, size_t rows,
                       size_t n, float* y) {
  launch("scatterScaledRows", scatterScaledRowsKernel, static_cast<unsigned>(rows), 256, 0, stream, x, scales, indices,
         n, y);
}

}  // namespace spillway::cuda
