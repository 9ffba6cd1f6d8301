// Magnitudes of groups of 32 values, and their rounding to integers. Included by sources that are compiled for each
// instruction set.
#pragma once
#include "MatmulKernels.h"
#include "simd.h"

namespace spillway::SPILLWAY_ISA {

constexpr float kSmallest = 1e-30f;
constexpr uint32_t kOneBits = 0x3f800000, kExponentMask = 0x7f800000, kMantissaMask = 0x007fffff;

// The magnitudes of 32 values, the larger of two each; infinity where one is not finite. As integers, in whose order
// NaN is beyond infinity.
static inline f32x16 magnitudes(const float* values) {
  const i32x16 larger = max(asInt(abs(load(values))), asInt(abs(load(values + 16))));
  return asFloat(min(larger, set1Int(static_cast<int32_t>(kExponentMask))));
}
static inline float largestOf(const float* values) { return reduceMax(magnitudes(values)); }

// Of R rows.
template <size_t R>
static inline void largestOfEach(const float* values, size_t stride, float largest[R]) {
  if constexpr (R == 4) {
    const f32x16 rows[] = {magnitudes(values), magnitudes(values + stride), magnitudes(values + 2 * stride),
                           magnitudes(values + 3 * stride)};
    reduceMaxEach(rows, largest);
  } else {
    for (size_t lane = 0; lane < R; lane++) largest[lane] = largestOf(values + lane * stride);
  }
}

// x * inverse to the nearest integer, ties to even, still with the bits of kBias.
static inline f32x16 biased(f32x16 x, f32x16 inverse) { return add(mul(x, inverse), set1(kBias)); }
static inline i32x16 integers(f32x16 biasedValues) { return sub(asInt(biasedValues), set1Int(kBiasBits)); }

}  // namespace spillway::SPILLWAY_ISA
