// f32x16 as four 128-bit registers: lanes 0-3, 4-7, 8-11 and 12-15. Included by simd.h only.
#pragma once
#include <arm_neon.h>

#if !defined(__aarch64__)
#error "SPILLWAY_ISA=neon, dotprod and i8mm are for AArch64"
#endif

namespace spillway::SPILLWAY_ISA {

struct f32x16 {
  float32x4_t a, b, c, d;
};
struct i32x16 {
  int32x4_t a, b, c, d;
};

static inline f32x16 set1(float x) {
  const float32x4_t v = vdupq_n_f32(x);
  return {v, v, v, v};
}
static inline f32x16 zero() { return set1(0.0f); }
static inline f32x16 load(const float* p) {
  return {vld1q_f32(p), vld1q_f32(p + 4), vld1q_f32(p + 8), vld1q_f32(p + 12)};
}
static inline void store(float* p, f32x16 v) {
  vst1q_f32(p, v.a);
  vst1q_f32(p + 4, v.b);
  vst1q_f32(p + 8, v.c);
  vst1q_f32(p + 12, v.d);
}
// NEON has no masked accesses; these go through a buffer.
static inline f32x16 loadPartial(const float* p, size_t n, float fill) {
  float buffer[16];
  store(buffer, set1(fill));
  for (size_t i = 0; i < n; i++) buffer[i] = p[i];
  return load(buffer);
}
static inline void storePartial(float* p, f32x16 v, size_t n) {
  float buffer[16];
  store(buffer, v);
  for (size_t i = 0; i < n; i++) p[i] = buffer[i];
}
static inline f32x16 loadHalf(const uint16_t* p) {
  const float16x8_t low = vreinterpretq_f16_u16(vld1q_u16(p)), high = vreinterpretq_f16_u16(vld1q_u16(p + 8));
  return {vcvt_f32_f16(vget_low_f16(low)), vcvt_high_f32_f16(low), vcvt_f32_f16(vget_low_f16(high)),
          vcvt_high_f32_f16(high)};
}
static inline f32x16 loadBfloat16(const uint16_t* p) {
  const uint16x8_t low = vld1q_u16(p), high = vld1q_u16(p + 8);
  return {vreinterpretq_f32_u32(vshll_n_u16(vget_low_u16(low), 16)), vreinterpretq_f32_u32(vshll_high_n_u16(low, 16)),
          vreinterpretq_f32_u32(vshll_n_u16(vget_low_u16(high), 16)),
          vreinterpretq_f32_u32(vshll_high_n_u16(high, 16))};
}
static inline void storeHalf(uint16_t* p, f32x16 v) {
  vst1q_u16(p, vreinterpretq_u16_f16(vcvt_high_f16_f32(vcvt_f16_f32(v.a), v.b)));
  vst1q_u16(p + 8, vreinterpretq_u16_f16(vcvt_high_f16_f32(vcvt_f16_f32(v.c), v.d)));
}
static inline f32x16 loadHalfPartial(const uint16_t* p, size_t n) {
  uint16_t buffer[16] = {};
  for (size_t i = 0; i < n; i++) buffer[i] = p[i];
  return loadHalf(buffer);
}
static inline f32x16 loadBfloat16Partial(const uint16_t* p, size_t n) {
  uint16_t buffer[16] = {};
  for (size_t i = 0; i < n; i++) buffer[i] = p[i];
  return loadBfloat16(buffer);
}
static inline void storeHalfPartial(uint16_t* p, f32x16 v, size_t n) {
  uint16_t buffer[16];
  storeHalf(buffer, v);
  for (size_t i = 0; i < n; i++) p[i] = buffer[i];
}

static inline f32x16 add(f32x16 x, f32x16 y) {
  return {vaddq_f32(x.a, y.a), vaddq_f32(x.b, y.b), vaddq_f32(x.c, y.c), vaddq_f32(x.d, y.d)};
}
static inline f32x16 sub(f32x16 x, f32x16 y) {
  return {vsubq_f32(x.a, y.a), vsubq_f32(x.b, y.b), vsubq_f32(x.c, y.c), vsubq_f32(x.d, y.d)};
}
static inline f32x16 mul(f32x16 x, f32x16 y) {
  return {vmulq_f32(x.a, y.a), vmulq_f32(x.b, y.b), vmulq_f32(x.c, y.c), vmulq_f32(x.d, y.d)};
}
static inline f32x16 div(f32x16 x, f32x16 y) {
  return {vdivq_f32(x.a, y.a), vdivq_f32(x.b, y.b), vdivq_f32(x.c, y.c), vdivq_f32(x.d, y.d)};
}
static inline f32x16 fma(f32x16 x, f32x16 y, f32x16 z) {
  return {vfmaq_f32(z.a, x.a, y.a), vfmaq_f32(z.b, x.b, y.b), vfmaq_f32(z.c, x.c, y.c), vfmaq_f32(z.d, x.d, y.d)};
}
static inline f32x16 sqrt(f32x16 x) { return {vsqrtq_f32(x.a), vsqrtq_f32(x.b), vsqrtq_f32(x.c), vsqrtq_f32(x.d)}; }
// fmax and fmin would keep NaN, or the one that is not.
static inline float32x4_t larger(float32x4_t x, float32x4_t y) { return vbslq_f32(vcgtq_f32(x, y), x, y); }
static inline float32x4_t smaller(float32x4_t x, float32x4_t y) { return vbslq_f32(vcltq_f32(x, y), x, y); }
static inline f32x16 max(f32x16 x, f32x16 y) {
  return {larger(x.a, y.a), larger(x.b, y.b), larger(x.c, y.c), larger(x.d, y.d)};
}
static inline f32x16 min(f32x16 x, f32x16 y) {
  return {smaller(x.a, y.a), smaller(x.b, y.b), smaller(x.c, y.c), smaller(x.d, y.d)};
}
static inline f32x16 selectLess(f32x16 a, f32x16 b, f32x16 x, f32x16 y) {
  return {vbslq_f32(vcltq_f32(a.a, b.a), x.a, y.a), vbslq_f32(vcltq_f32(a.b, b.b), x.b, y.b),
          vbslq_f32(vcltq_f32(a.c, b.c), x.c, y.c), vbslq_f32(vcltq_f32(a.d, b.d), x.d, y.d)};
}
static inline uint32_t notLess(f32x16 x, f32x16 y) {
  const uint32_t weights[4] = {1, 2, 4, 8};
  const uint32x4_t bit = vld1q_u32(weights);
  const auto four = [bit](float32x4_t a, float32x4_t b) { return vaddvq_u32(vbicq_u32(bit, vcltq_f32(a, b))); };
  return four(x.a, y.a) | four(x.b, y.b) << 4 | four(x.c, y.c) << 8 | four(x.d, y.d) << 12;
}
// Of each set of four lanes, the bytes that come first when they are moved together; the rest repeats byte 0.
struct SelectedLanes {
  uint8_t of[16][16];
  constexpr SelectedLanes() : of() {
    for (unsigned lanes = 0; lanes < 16; lanes++)
      for (unsigned lane = 0, to = 0; lane < 4; lane++)
        if (lanes >> lane & 1u)
          for (unsigned byte = 0; byte < 4; byte++) of[lanes][to++] = static_cast<uint8_t>(4 * lane + byte);
  }
};
static constexpr SelectedLanes kSelectedLanes;
static inline void storeSelected(float* p, f32x16 v, uint32_t lanes) {
  const auto four = [&p, &lanes](float32x4_t from) {
    const uint32_t mask = lanes & 15u;
    const uint8x16_t moved = vqtbl1q_u8(vreinterpretq_u8_f32(from), vld1q_u8(kSelectedLanes.of[mask]));
    vst1q_f32(p, vreinterpretq_f32_u8(moved));
    p += __builtin_popcount(mask);
    lanes >>= 4;
  };
  four(v.a);
  four(v.b);
  four(v.c);
  four(v.d);
}
template <int N>
static inline f32x16 swapLanes(f32x16 x) {
  if (N == 1) return {vrev64q_f32(x.a), vrev64q_f32(x.b), vrev64q_f32(x.c), vrev64q_f32(x.d)};
  if (N == 2) return {vextq_f32(x.a, x.a, 2), vextq_f32(x.b, x.b, 2), vextq_f32(x.c, x.c, 2), vextq_f32(x.d, x.d, 2)};
  if (N == 4) return {x.b, x.a, x.d, x.c};
  return {x.c, x.d, x.a, x.b};
}
static inline f32x16 abs(f32x16 x) { return {vabsq_f32(x.a), vabsq_f32(x.b), vabsq_f32(x.c), vabsq_f32(x.d)}; }
static inline f32x16 copySign(f32x16 x, f32x16 sign) {
  const uint32x4_t bit = vdupq_n_u32(0x80000000u);
  return {vbslq_f32(bit, sign.a, x.a), vbslq_f32(bit, sign.b, x.b), vbslq_f32(bit, sign.c, x.c),
          vbslq_f32(bit, sign.d, x.d)};
}

static inline i32x16 set1Int(int32_t x) {
  const int32x4_t v = vdupq_n_s32(x);
  return {v, v, v, v};
}
static inline i32x16 add(i32x16 x, i32x16 y) {
  return {vaddq_s32(x.a, y.a), vaddq_s32(x.b, y.b), vaddq_s32(x.c, y.c), vaddq_s32(x.d, y.d)};
}
static inline i32x16 min(i32x16 x, i32x16 y) {
  return {vminq_s32(x.a, y.a), vminq_s32(x.b, y.b), vminq_s32(x.c, y.c), vminq_s32(x.d, y.d)};
}
static inline i32x16 max(i32x16 x, i32x16 y) {
  return {vmaxq_s32(x.a, y.a), vmaxq_s32(x.b, y.b), vmaxq_s32(x.c, y.c), vmaxq_s32(x.d, y.d)};
}
static inline i32x16 sub(i32x16 x, i32x16 y) {
  return {vsubq_s32(x.a, y.a), vsubq_s32(x.b, y.b), vsubq_s32(x.c, y.c), vsubq_s32(x.d, y.d)};
}
template <int N>
static inline i32x16 shiftLeft(i32x16 x) {
  return {vshlq_n_s32(x.a, N), vshlq_n_s32(x.b, N), vshlq_n_s32(x.c, N), vshlq_n_s32(x.d, N)};
}
template <int N>
static inline i32x16 shiftRight(i32x16 x) {
  return {vshrq_n_s32(x.a, N), vshrq_n_s32(x.b, N), vshrq_n_s32(x.c, N), vshrq_n_s32(x.d, N)};
}
static inline i32x16 asInt(f32x16 x) {
  return {vreinterpretq_s32_f32(x.a), vreinterpretq_s32_f32(x.b), vreinterpretq_s32_f32(x.c),
          vreinterpretq_s32_f32(x.d)};
}
static inline f32x16 asFloat(i32x16 x) {
  return {vreinterpretq_f32_s32(x.a), vreinterpretq_f32_s32(x.b), vreinterpretq_f32_s32(x.c),
          vreinterpretq_f32_s32(x.d)};
}
static inline f32x16 toFloat(i32x16 x) {
  return {vcvtq_f32_s32(x.a), vcvtq_f32_s32(x.b), vcvtq_f32_s32(x.c), vcvtq_f32_s32(x.d)};
}
// The low byte of each lane.
static inline int8x16_t narrow(i32x16 v) {
  const int16x8_t low = vmovn_high_s32(vmovn_s32(v.a), v.b), high = vmovn_high_s32(vmovn_s32(v.c), v.d);
  return vmovn_high_s16(vmovn_s16(low), high);
}
// Adds to each lane the products of its four signed bytes.
static inline int32x4_t dotBytes(int32x4_t sum, int8x16_t x, int8x16_t y) {
#if defined(__ARM_FEATURE_DOTPROD)
  return vdotq_s32(sum, x, y);
#else
  const int16x8_t low = vmull_s8(vget_low_s8(x), vget_low_s8(y)), high = vmull_high_s8(x, y);
  return vpadalq_s16(sum, vpaddq_s16(low, high));  // two products of 127 and 128 fit 16 bits
#endif
}

static inline float reduceAdd(f32x16 v) {
  const float32x4_t four = vaddq_f32(vaddq_f32(v.a, v.c), vaddq_f32(v.b, v.d));
  return vpadds_f32(vadd_f32(vget_low_f32(four), vget_high_f32(four)));
}
static inline float reduceMax(f32x16 v) {
  const float32x4_t four = larger(larger(v.a, v.c), larger(v.b, v.d));
  const float32x4_t two = larger(four, vextq_f32(four, four, 2));
  return vgetq_lane_f32(larger(two, vdupq_laneq_f32(two, 1)), 0);
}
static inline void reduceMaxEach(const f32x16 v[4], float out[4]) {
  for (int j = 0; j < 4; j++) out[j] = reduceMax(v[j]);
}

}  // namespace spillway::SPILLWAY_ISA
