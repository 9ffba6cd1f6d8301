#include "RowKernels.h"
#include "rowNorm.h"

namespace spillway::cuda {
namespace {

// A block a row.
__global__ __launch_bounds__(kMostRowThreads, kRowBlocks) void rmsNormKernel(const float* x, RmsNorm norm, size_t n,
                                                                             float* y) {
  const KeptRow row(x + blockIdx.x * n, n);
  norm.measure(row, sharedAs<float>());
  storeChanged(row, norm, y + blockIdx.x * n);
}

}  // namespace

void rmsNorm(cudaStream_t stream, const float* x, const float* weight, float epsilon, size_t rows, size_t n, float* y) {
  launch("rmsNorm", rmsNormKernel, static_cast<unsigned>(rows), rowThreads(n), rowSharedBytes(n), stream, x,
         RmsNorm{weight, epsilon, 0}, n, y);
}

}  // namespace spillway::cuda
