#include "activated.h"

namespace spillway::cuda {
namespace {

template <Activation Kind>
__global__ void activateKernel(float* x, const float* up, size_t n) {
  const size_t i = size_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= n) return;
  x[i] = up == nullptr ? activated<Kind>(x[i]) : activated<Kind>(x[i], up[i]);
}

}  // namespace

void activate(cudaStream_t stream, Activation activation, float* x, const float* up, size_t n) {
  withActivation(activation, [&](auto kind) {
    launch("activate", activateKernel<decltype(kind)::value>, divideUp(n, 256), 256, 0, stream, x, up, n);
  });
}

}  // namespace spillway::cuda
