#include "keptRow.h"

namespace spillway::cuda {
namespace {

// A block a row.
__global__ __launch_bounds__(kMostRowThreads, kRowBlocks) void prepareRowsKernel(const float* x, size_t stride,
                                                                                 HalfRows to) {
  const KeptRow row(x + blockIdx.x * stride, to.columns);
  storeHalves(row, to, sharedAs<float>(), [](size_t, unsigned, const float (&v)[8], float (&same)[8]) {
#pragma unroll
    for (unsigned k = 0; k < 8; k++) same[k] = v[k];
  });
}

}  // namespace

void prepareRows(cudaStream_t stream, const float* x, size_t stride, const HalfRows& to) {
  launch("prepareRows", prepareRowsKernel, static_cast<unsigned>(to.rows), rowThreads(to.columns),
         rowSharedBytes(to.columns), stream, x, stride, to);
}

}  // namespace spillway::cuda
