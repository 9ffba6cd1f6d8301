// 16-bit floats to and from float32, bit by bit and portable. Internal linkage, so that a file compiled for an
// instruction set shares no symbol.
#pragma once
#include <stdint.h>

namespace spillway {

static inline float floatFromBits(uint32_t bits) {
  float value;
  __builtin_memcpy(&value, &bits, sizeof value);
  return value;
}

static inline uint32_t bitsOfFloat(float value) {
  uint32_t bits;
  __builtin_memcpy(&bits, &value, sizeof bits);
  return bits;
}

static inline float bfloat16ToFloat(uint16_t bits) { return floatFromBits(static_cast<uint32_t>(bits) << 16); }

// As vcvtph2ps does it: exact, subnormals included; a signalling NaN becomes quiet.
static inline float halfToFloat(uint16_t half) {
  const uint32_t sign = static_cast<uint32_t>(half & 0x8000u) << 16;
  const uint32_t exponent = (half >> 10) & 31u;
  const uint32_t mantissa = half & 0x3ffu;
  if (exponent == 31) return floatFromBits(sign | 0x7f800000u | (mantissa << 13) | (mantissa != 0 ? 0x400000u : 0));
  if (exponent != 0) return floatFromBits(sign | ((exponent + 112) << 23) | (mantissa << 13));
  const float magnitude = static_cast<float>(mantissa) * 5.9604644775390625e-8f;  // 2^-24
  return floatFromBits(sign | bitsOfFloat(magnitude));
}

// As vcvtps2ph does it with rounding to nearest even; a NaN keeps its upper payload bits and becomes quiet.
static inline uint16_t floatToHalf(float value) {
  const uint32_t bits = bitsOfFloat(value);
  const uint32_t sign = (bits >> 16) & 0x8000u;
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return static_cast<uint16_t>(sign | 0x7e00u | ((magnitude >> 13) & 0x3ffu));
  if (magnitude >= 0x477ff000u) return static_cast<uint16_t>(sign | 0x7c00u);  // rounds to 65536 or more
  if (magnitude < 0x38800000u) {
    // Below 2^-14 halves are multiples of 2^-24, the spacing of floats in [0.5, 1): the addition rounds.
    const float shifted = floatFromBits(magnitude) + 0.5f;
    return static_cast<uint16_t>(sign | (bitsOfFloat(shifted) - 0x3f000000u));
  }
  const uint32_t odd = (magnitude >> 13) & 1u;
  return static_cast<uint16_t>(sign | ((magnitude - 0x38000000u + 0xfffu + odd) >> 13));
}

}  // namespace spillway
