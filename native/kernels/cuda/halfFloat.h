// Half-precision floats in a kernel, as bits: conversions, and products of two at a time; and a power of two.
#pragma once
#include "gpu.h"
#if !defined(__CUDACC__)
#include "../cpu/floatFormats.h"
#endif

namespace spillway::cuda {

__device__ __forceinline__ float fromHalf(uint16_t bits) {
#if defined(__CUDA_ARCH__)
  float value;
  asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
  return value;
#elif defined(__CUDACC__)
  return bits;
#else
  return halfToFloat(bits);
#endif
}

// To nearest even; 65520 and more become infinity.
__device__ __forceinline__ uint16_t toHalf(float value) {
#if defined(__CUDA_ARCH__)
  uint16_t bits;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
  return bits;
#elif defined(__CUDACC__)
  return static_cast<uint16_t>(value);
#else
  return floatToHalf(value);
#endif
}

// To within +-most; what is not finite stays so, and shows in what is made of it.
__device__ __forceinline__ float clampFinite(float x, float most) {
  return x - x != 0.0f ? x : x > most ? most : x < -most ? -most : x;
}

__device__ __forceinline__ uint32_t packHalves(float low, float high) {
  return static_cast<uint32_t>(toHalf(high)) << 16 | toHalf(low);
}

// a * b + c for both halves of the words, each rounded once.
__device__ __forceinline__ uint32_t fmaHalves(uint32_t a, uint32_t b, uint32_t c) {
#if defined(__CUDA_ARCH__)
  uint32_t result;
  asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(result) : "r"(a), "r"(b), "r"(c));
  return result;
#elif defined(__CUDACC__)
  return a + b + c;
#else
  // The product of two halves is exact in float. Its sum with a third is rounded twice here: that may differ from the
  // device in a tie's last bit.
  const auto part = [](uint32_t x, int shift) { return halfToFloat(static_cast<uint16_t>(x >> shift)); };
  return packHalves(part(a, 0) * part(b, 0) + part(c, 0), part(a, 16) * part(b, 16) + part(c, 16));
#endif
}

__device__ __forceinline__ float fromBfloat16(uint16_t bits) {
  return __uint_as_float(static_cast<uint32_t>(bits) << 16);
}

// 2^x as the device's instruction has it, to 2^-22 of it; below 2^-126 zero.
__device__ __forceinline__ float exp2Approximate(float x) {
#if defined(__CUDA_ARCH__)
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
#else
  return exp2f(x);
#endif
}

}  // namespace spillway::cuda
