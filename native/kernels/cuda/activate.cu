#include "RowKernels.h"

namespace spillway::cuda {
namespace {

// x times the logistic function of `steepness`. Far below zero expf() is infinite and the quotient zero, x = -infinity
// included.
__device__ __forceinline__ float timesLogistic(float x, float steepness) {
  return fmaxf(x, -200.0f) / (1.0f + expf(-steepness));
}

template <Activation Kind>
__device__ __forceinline__ float activated(float x) {
  if constexpr (Kind == Activation::Relu) return x < 0.0f ? 0.0f : x;  // a NaN stays one
  if constexpr (Kind == Activation::Silu) return timesLogistic(x, x);
  if constexpr (Kind == Activation::GeluTanh)
    return timesLogistic(x, x * fmaf(x * x, 0.0713548162726f, 1.59576912161f));
  return 0.5f * fmaxf(x, -200.0f) * erfcf(-0.707106781f * x);
}

template <Activation Kind>
__global__ void activateKernel(float* x, const float* up, size_t n) {
  const size_t i = size_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const float value = activated<Kind>(x[i]);
  x[i] = up == nullptr ? value : value * up[i];
}

}  // namespace

void activate(cudaStream_t stream, Activation activation, float* x, const float* up, size_t n) {
  const auto run = [&](auto kernel) { launch("activate", kernel, divideUp(n, 256), 256, 0, stream, x, up, n); };
  switch (activation) {
    case Activation::Relu: return run(activateKernel<Activation::Relu>);
    case Activation::Gelu: return run(activateKernel<Activation::Gelu>);
    case Activation::GeluTanh: return run(activateKernel<Activation::GeluTanh>);
    case Activation::Silu: return run(activateKernel<Activation::Silu>);
  }
}

}  // namespace spillway::cuda
