// f32x16 in portable C++: the reference. Included by simd.h only.
#pragma once

namespace spillway::SPILLWAY_ISA {

struct f32x16 {
  float lane[16];
};
struct i32x16 {
  int32_t lane[16];
};

#define SPILLWAY_LANES(Type, expression)                      \
  Type result;                                                \
  for (int i = 0; i < 16; i++) result.lane[i] = (expression); \
  return result

static inline f32x16 set1(float x) { SPILLWAY_LANES(f32x16, x); }
static inline f32x16 zero() { return set1(0.0f); }
static inline f32x16 load(const float* p) { SPILLWAY_LANES(f32x16, p[i]); }
static inline f32x16 loadPartial(const float* p, size_t n, float fill) {
  SPILLWAY_LANES(f32x16, static_cast<size_t>(i) < n ? p[i] : fill);
}
static inline void store(float* p, f32x16 v) { __builtin_memcpy(p, v.lane, sizeof v.lane); }
static inline void storePartial(float* p, f32x16 v, size_t n) {
  for (size_t i = 0; i < n; i++) p[i] = v.lane[i];
}
static inline f32x16 loadHalf(const uint16_t* p) { SPILLWAY_LANES(f32x16, halfToFloat(p[i])); }
static inline f32x16 loadHalfPartial(const uint16_t* p, size_t n) {
  SPILLWAY_LANES(f32x16, static_cast<size_t>(i) < n ? halfToFloat(p[i]) : 0.0f);
}
static inline f32x16 loadBfloat16(const uint16_t* p) { SPILLWAY_LANES(f32x16, bfloat16ToFloat(p[i])); }
static inline f32x16 loadBfloat16Partial(const uint16_t* p, size_t n) {
  SPILLWAY_LANES(f32x16, static_cast<size_t>(i) < n ? bfloat16ToFloat(p[i]) : 0.0f);
}
static inline void storeHalfPartial(uint16_t* p, f32x16 v, size_t n) {
  for (size_t i = 0; i < n; i++) p[i] = floatToHalf(v.lane[i]);
}
static inline void storeHalf(uint16_t* p, f32x16 v) { storeHalfPartial(p, v, 16); }

static inline f32x16 add(f32x16 a, f32x16 b) { SPILLWAY_LANES(f32x16, a.lane[i] + b.lane[i]); }
static inline f32x16 sub(f32x16 a, f32x16 b) { SPILLWAY_LANES(f32x16, a.lane[i] - b.lane[i]); }
static inline f32x16 mul(f32x16 a, f32x16 b) { SPILLWAY_LANES(f32x16, a.lane[i] * b.lane[i]); }
static inline f32x16 div(f32x16 a, f32x16 b) { SPILLWAY_LANES(f32x16, a.lane[i] / b.lane[i]); }
static inline f32x16 fma(f32x16 a, f32x16 b, f32x16 c) {
  SPILLWAY_LANES(f32x16, __builtin_fmaf(a.lane[i], b.lane[i], c.lane[i]));
}
static inline f32x16 sqrt(f32x16 v) { SPILLWAY_LANES(f32x16, __builtin_sqrtf(v.lane[i])); }
static inline f32x16 max(f32x16 a, f32x16 b) { SPILLWAY_LANES(f32x16, a.lane[i] > b.lane[i] ? a.lane[i] : b.lane[i]); }
static inline f32x16 min(f32x16 a, f32x16 b) { SPILLWAY_LANES(f32x16, a.lane[i] < b.lane[i] ? a.lane[i] : b.lane[i]); }
static inline f32x16 selectLess(f32x16 a, f32x16 b, f32x16 x, f32x16 y) {
  SPILLWAY_LANES(f32x16, a.lane[i] < b.lane[i] ? x.lane[i] : y.lane[i]);
}
static inline uint32_t notLess(f32x16 a, f32x16 b) {
  uint32_t lanes = 0;
  for (int i = 0; i < 16; i++) lanes |= (a.lane[i] < b.lane[i] ? 0u : 1u) << i;
  return lanes;
}
static inline void storeSelected(float* p, f32x16 v, uint32_t lanes) {
  for (int i = 0; i < 16; i++)
    if (lanes >> i & 1u) __builtin_memcpy(p++, &v.lane[i], sizeof(float));
}
template <int N>
static inline f32x16 swapLanes(f32x16 a) {
  SPILLWAY_LANES(f32x16, a.lane[i ^ N]);
}
static inline f32x16 abs(f32x16 v) { SPILLWAY_LANES(f32x16, floatFromBits(bitsOfFloat(v.lane[i]) & 0x7fffffffu)); }
static inline f32x16 copySign(f32x16 magnitude, f32x16 sign) {
  SPILLWAY_LANES(f32x16, floatFromBits((bitsOfFloat(magnitude.lane[i]) & 0x7fffffffu) |
                                       (bitsOfFloat(sign.lane[i]) & 0x80000000u)));
}

static inline i32x16 set1Int(int32_t x) { SPILLWAY_LANES(i32x16, x); }
static inline i32x16 add(i32x16 a, i32x16 b) {
  SPILLWAY_LANES(i32x16, static_cast<int32_t>(static_cast<uint32_t>(a.lane[i]) + static_cast<uint32_t>(b.lane[i])));
}
static inline i32x16 min(i32x16 a, i32x16 b) { SPILLWAY_LANES(i32x16, a.lane[i] < b.lane[i] ? a.lane[i] : b.lane[i]); }
static inline i32x16 max(i32x16 a, i32x16 b) { SPILLWAY_LANES(i32x16, a.lane[i] > b.lane[i] ? a.lane[i] : b.lane[i]); }
static inline i32x16 sub(i32x16 a, i32x16 b) {
  SPILLWAY_LANES(i32x16, static_cast<int32_t>(static_cast<uint32_t>(a.lane[i]) - static_cast<uint32_t>(b.lane[i])));
}
template <int N>
static inline i32x16 shiftLeft(i32x16 v) {
  SPILLWAY_LANES(i32x16, static_cast<int32_t>(static_cast<uint32_t>(v.lane[i]) << N));
}
template <int N>
static inline i32x16 shiftRight(i32x16 v) {
  SPILLWAY_LANES(i32x16, v.lane[i] >> N);
}
static inline i32x16 asInt(f32x16 v) { SPILLWAY_LANES(i32x16, static_cast<int32_t>(bitsOfFloat(v.lane[i]))); }
static inline f32x16 asFloat(i32x16 v) { SPILLWAY_LANES(f32x16, floatFromBits(static_cast<uint32_t>(v.lane[i]))); }
static inline f32x16 toFloat(i32x16 v) { SPILLWAY_LANES(f32x16, static_cast<float>(v.lane[i])); }
#undef SPILLWAY_LANES

static inline float reduceAdd(f32x16 v) {
  for (int width = 8; width > 0; width /= 2)
    for (int i = 0; i < width; i++) v.lane[i] = v.lane[i] + v.lane[i + width];
  return v.lane[0];
}
static inline float reduceMax(f32x16 v) {
  for (int width = 8; width > 0; width /= 2)
    for (int i = 0; i < width; i++) v.lane[i] = v.lane[i] > v.lane[i + width] ? v.lane[i] : v.lane[i + width];
  return v.lane[0];
}
static inline void reduceMaxEach(const f32x16 v[4], float out[4]) {
  for (int j = 0; j < 4; j++) out[j] = reduceMax(v[j]);
}

}  // namespace spillway::SPILLWAY_ISA
