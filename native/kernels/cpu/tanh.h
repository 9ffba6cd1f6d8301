// The hyperbolic tangent, for soft caps. Included by sources that are compiled for each instruction set (simd.h).
#pragma once
#include "simd.h"

namespace spillway::SPILLWAY_ISA {

// tanh x within 2 ulp; of NaN, NaN. Near zero x + x z P(z) with z = x², P fitted by us by iteratively reweighted least
// squares on the relative error; beyond, 1 - 2 / (e^2|x| + 1) loses nothing.
static inline f32x16 tanh(f32x16 x) {
  const f32x16 size = abs(x), z = mul(x, x);
  f32x16 p = set1(-0x1.75e1cap-8f);
  p = fma(p, z, set1(0x1.52269ap-6f));
  p = fma(p, z, set1(-0x1.b83c5ap-5f));
  p = fma(p, z, set1(0x1.110726p-3f));
  p = fma(p, z, set1(-0x1.555532p-2f));
  const f32x16 near = fma(mul(p, z), x, x);
  const f32x16 far = sub(set1(1.0f), div(set1(2.0f), add(exp(add(size, size)), set1(1.0f))));
  return selectLess(size, set1(0.625f), near, copySign(far, x));
}

}  // namespace spillway::SPILLWAY_ISA
