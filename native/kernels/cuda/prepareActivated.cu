#include "activated.h"
#include "keptRow.h"

namespace spillway::cuda {
namespace {

// A block a row.
template <Activation Kind>
__global__ __launch_bounds__(kMostRowThreads, kRowBlocks) void prepareActivatedKernel(const float* x, const float* up,
                                                                                      HalfRows to) {
  const KeptRow row(x + blockIdx.x * to.columns, to.columns);
  storeHalves(row, to, sharedAs<float>(), [=](size_t i, unsigned count, const float (&v)[8], float (&result)[8]) {
    float factors[8];
    if (up != nullptr) loadEight(up + blockIdx.x * to.columns, i, count, factors);
#pragma unroll
    for (unsigned k = 0; k < 8; k++)
      result[k] = up == nullptr ? activated<Kind>(v[k]) : activated<Kind>(v[k], factors[k]);
  });
}

}  // namespace

void prepareActivated(cudaStream_t stream, Activation activation, const float* x, const float* up, const HalfRows& to) {
  withActivation(activation, [&](auto kind) {
    launch("prepareActivated", prepareActivatedKernel<decltype(kind)::value>, static_cast<unsigned>(to.rows),
           rowThreads(to.columns), rowSharedBytes(to.columns), stream, x, up, to);
  });
}

}  // namespace spillway::cuda
