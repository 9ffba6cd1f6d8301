#include "RowKernels.h"
#include "rowNorm.h"

namespace spillway::cuda {
namespace {

// A block a row.
__global__ __launch_bounds__(kMostRowThreads, kRowBlocks) void layerNormKernel(const float* x, LayerNorm norm, size_t n,
                                                                               unsigned weightRows, float* y) {
  norm.weight += blockIdx.x % weightRows * n;
  if (norm.bias != nullptr) norm.bias += blockIdx.x % weightRows * n;
  const KeptRow row(x + blockIdx.x * n, n);
  norm.measure(row, sharedAs<float>());
  storeChanged(row, norm, y + blockIdx.x * n);
}

}  // namespace

void layerNorm(cudaStream_t stream, const float* x, const float* weight, const float* bias, float epsilon, size_t rows,
               size_t n, float* y, unsigned weightRows) {
  launch("layerNorm", layerNormKernel, static_cast<unsigned>(rows), rowThreads(n), rowSharedBytes(n), stream, x,
         LayerNorm{weight, bias, epsilon, 0, 0}, n, weightRows, y);
}

}  // namespace spillway::cuda
