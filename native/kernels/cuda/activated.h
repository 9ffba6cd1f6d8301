// Activation functions.
#pragma once
#include <type_traits>

#include "RowKernels.h"

namespace spillway::cuda {

// x times the logistic function of `steepness`. Far below zero expf() is infinite and the quotient zero, x = -infinity
// included.
__device__ __forceinline__ float timesLogistic(float x, float steepness) {
  return fmaxf(x, -200.0f) / (1.0f + expf(-steepness));
}

template <Activation Kind>
__device__ __forceinline__ float activated(float x) {
  if constexpr (Kind == Activation::Relu) return x < 0.0f ? 0.0f : x;  // a NaN stays one
  if constexpr (Kind == Activation::ReluSquared) return x < 0.0f ? 0.0f : x * x;
  if constexpr (Kind == Activation::Silu) return timesLogistic(x, x);
  if constexpr (Kind == Activation::GeluTanh)
    return timesLogistic(x, x * fmaf(x * x, 0.0713548162726f, 1.59576912161f));
  return 0.5f * fmaxf(x, -200.0f) * erfcf(-0.707106781f * x);
}

// Times `up`, of a gated block.
template <Activation Kind>
__device__ __forceinline__ float activated(float x, float up) {
  if constexpr (Kind == Activation::ClampedSwiglu) {
    // In comparisons a NaN stays one.
    const float gate = x > kSwigluLimit ? kSwigluLimit : x, factor = up > kSwigluLimit    ? kSwigluLimit
                                                                     : up < -kSwigluLimit ? -kSwigluLimit
                                                                                          : up;
    return timesLogistic(gate, gate * kSwigluSteepness) * (factor + 1.0f);
  } else {
    return activated<Kind>(x) * up;
  }
}

// run(kind), with the activation as a type.
template <typename Run>
void withActivation(Activation activation, Run run) {
  switch (activation) {
    case Activation::Relu: return run(std::integral_constant<Activation, Activation::Relu>());
    case Activation::ReluSquared: return run(std::integral_constant<Activation, Activation::ReluSquared>());
    case Activation::Gelu: return run(std::integral_constant<Activation, Activation::Gelu>());
    case Activation::GeluTanh: return run(std::integral_constant<Activation, Activation::GeluTanh>());
    case Activation::Silu: return run(std::integral_constant<Activation, Activation::Silu>());
    case Activation::ClampedSwiglu: return run(std::integral_constant<Activation, Activation::ClampedSwiglu>());
    case Activation::Xielu: return;  // of the processor
  }
}

}  // namespace spillway::cuda
