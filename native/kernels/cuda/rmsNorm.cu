#include "RowKernels.h"
#include "reduce.h"

namespace spillway::cuda {
namespace {

constexpr unsigned kThreads = 256;

// A block a row.
__global__ void rmsNormKernel(const float* x, const float* weight, float epsilon, size_t n, float* y) {
  float* partials = sharedAs<float>();
  const float* from = x + blockIdx.x * n;
  float squares = 0;
  for (size_t i = threadIdx.x; i < n; i += kThreads) squares = fmaf(from[i], from[i], squares);
  squares = blockSum(squares, partials);
  const float factor = 1.0f / sqrtf(squares / static_cast<float>(n) + epsilon);
  for (size_t i = threadIdx.x; i < n; i += kThreads) y[blockIdx.x * n + i] = from[i] * factor * weight[i];
}

}  // namespace

void rmsNorm(cudaStream_t stream, const float* x, const float* weight, float epsilon, size_t rows, size_t n, float* y) {
  launch("rmsNorm", rmsNormKernel, static_cast<unsigned>(rows), kThreads, kThreads / kWarp * sizeof(float), stream, x,
         weight, epsilon, n, y);
}

}  // namespace spillway::cuda
