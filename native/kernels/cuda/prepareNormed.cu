#include "RowKernels.h"
#include "rowNorm.h"

namespace spillway::cuda {
namespace {

// A block a row.
template <typename Norm>
__global__ __launch_bounds__(kMostRowThreads, kRowBlocks) void prepareNormedKernel(const float* x, Norm norm,
                                                                                   HalfRows to) {
  float* partials = sharedAs<float>();
  const KeptRow row(x + blockIdx.x * to.columns, to.columns);
  norm.measure(row, partials);
  storeHalves(row, to, partials, norm);
}

template <typename Norm>
void run(const char* name, cudaStream_t stream, const float* x, const Norm& norm, const HalfRows& to) {
  launch(name, prepareNormedKernel<Norm>, static_cast<unsigned>(to.rows), rowThreads(to.columns),
         rowSharedBytes(to.columns), stream, x, norm, to);
}

}  // namespace

void prepareRmsNorm(cudaStream_t stream, const float* x, const float* weight, float epsilon, const HalfRows& to) {
  run("prepareRmsNorm", stream, x, RmsNorm{weight, epsilon, 0}, to);
}

void prepareLayerNorm(cudaStream_t stream, const float* x, const float* weight, const float* bias, float epsilon,
                      const HalfRows& to) {
  run("prepareLayerNorm", stream, x, LayerNorm{weight, bias, epsilon, 0, 0}, to);
}

}  // namespace spillway::cuda
