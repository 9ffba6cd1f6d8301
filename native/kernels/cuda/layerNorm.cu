#include "RowKernels.h"
#include "reduce.h"

namespace spillway::cuda {
namespace {

constexpr unsigned kThreads = 256;

// A block a row. Mean first, then squares of differences.
__global__ void layerNormKernel(const float* x, const float* weight, const float* bias, float epsilon, size_t n,
                                float* y) {
  float* partials = sharedAs<float>();
  const float* from = x + blockIdx.x * n;
  float sum = 0;
  for (size_t i = threadIdx.x; i < n; i += kThreads) sum += from[i];
  const float mean = blockSum(sum, partials) / static_cast<float>(n);
  float squares = 0;
  for (size_t i = threadIdx.x; i < n; i += kThreads) squares = fmaf(from[i] - mean, from[i] - mean, squares);
  squares = blockSum(squares, partials);
  const float factor = 1.0f / sqrtf(squares / static_cast<float>(n) + epsilon);
  for (size_t i = threadIdx.x; i < n; i += kThreads) {
    const float normed = (from[i] - mean) * factor;
    y[blockIdx.x * n + i] = bias == nullptr ? normed * weight[i] : fmaf(normed, weight[i], bias[i]);
  }
}

}  // namespace

void layerNorm(cudaStream_t stream, const float* x, const float* weight, const float* bias, float epsilon, size_t rows,
               size_t n, float* y) {
  launch("layerNorm", layerNormKernel, static_cast<unsigned>(rows), kThreads, kThreads / kWarp * sizeof(float), stream,
         x, weight, bias, epsilon, n, y);
}

}  // namespace spillway::cuda
