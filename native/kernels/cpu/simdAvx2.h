// f32x16 as two 256-bit registers: lanes 0-7 and 8-15. Included by simd.h only.
#pragma once
#include <immintrin.h>

#if !defined(__AVX2__) || !defined(__FMA__) || !defined(__F16C__)
#error "SPILLWAY_ISA=avx2 and its kin need -mavx2 -mfma -mf16c"
#endif

namespace spillway::SPILLWAY_ISA {

struct f32x16 {
  __m256 low, high;
};
struct i32x16 {
  __m256i low, high;
};

// Eight lanes of ones and zeros for the first n of lanes `first` to `first + 7`.
static inline __m256i firstLanes(size_t n, int first) {
  const __m256i lane = _mm256_add_epi32(_mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7), _mm256_set1_epi32(first));
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(n)), lane);
}

static inline f32x16 set1(float x) { return {_mm256_set1_ps(x), _mm256_set1_ps(x)}; }
static inline f32x16 zero() { return {_mm256_setzero_ps(), _mm256_setzero_ps()}; }
static inline f32x16 load(const float* p) { return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
static inline void store(float* p, f32x16 v) {
  _mm256_storeu_ps(p, v.low);
  _mm256_storeu_ps(p + 8, v.high);
}
static inline f32x16 loadPartial(const float* p, size_t n, float fill) {
  const __m256i low = firstLanes(n, 0), high = firstLanes(n, 8);
  const __m256 rest = _mm256_set1_ps(fill);
  return {_mm256_blendv_ps(rest, _mm256_maskload_ps(p, low), _mm256_castsi256_ps(low)),
          _mm256_blendv_ps(rest, _mm256_maskload_ps(p + 8, high), _mm256_castsi256_ps(high))};
}
static inline void storePartial(float* p, f32x16 v, size_t n) {
  _mm256_maskstore_ps(p, firstLanes(n, 0), v.low);
  _mm256_maskstore_ps(p + 8, firstLanes(n, 8), v.high);
}
static inline f32x16 loadHalf(const uint16_t* p) {
  return {_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))),
          _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p + 8)))};
}
static inline f32x16 loadBfloat16(const uint16_t* p) {
  const __m256i bits = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  return {_mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm256_castsi256_si128(bits)), 16)),
          _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm256_extracti128_si256(bits, 1)), 16))};
}
static inline void storeHalf(uint16_t* p, f32x16 v) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p),
                   _mm256_cvtps_ph(v.low, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p + 8),
                   _mm256_cvtps_ph(v.high, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
// AVX2 has no masked 16-bit accesses; these go through a buffer.
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

static inline f32x16 add(f32x16 a, f32x16 b) { return {_mm256_add_ps(a.low, b.low), _mm256_add_ps(a.high, b.high)}; }
static inline f32x16 sub(f32x16 a, f32x16 b) { return {_mm256_sub_ps(a.low, b.low), _mm256_sub_ps(a.high, b.high)}; }
static inline f32x16 mul(f32x16 a, f32x16 b) { return {_mm256_mul_ps(a.low, b.low), _mm256_mul_ps(a.high, b.high)}; }
static inline f32x16 div(f32x16 a, f32x16 b) { return {_mm256_div_ps(a.low, b.low), _mm256_div_ps(a.high, b.high)}; }
static inline f32x16 fma(f32x16 a, f32x16 b, f32x16 c) {
  return {_mm256_fmadd_ps(a.low, b.low, c.low), _mm256_fmadd_ps(a.high, b.high, c.high)};
}
static inline f32x16 sqrt(f32x16 v) { return {_mm256_sqrt_ps(v.low), _mm256_sqrt_ps(v.high)}; }
static inline f32x16 max(f32x16 a, f32x16 b) { return {_mm256_max_ps(a.low, b.low), _mm256_max_ps(a.high, b.high)}; }
static inline f32x16 min(f32x16 a, f32x16 b) { return {_mm256_min_ps(a.low, b.low), _mm256_min_ps(a.high, b.high)}; }
static inline f32x16 selectLess(f32x16 a, f32x16 b, f32x16 x, f32x16 y) {
  return {_mm256_blendv_ps(y.low, x.low, _mm256_cmp_ps(a.low, b.low, _CMP_LT_OQ)),
          _mm256_blendv_ps(y.high, x.high, _mm256_cmp_ps(a.high, b.high, _CMP_LT_OQ))};
}
static inline uint32_t notLess(f32x16 a, f32x16 b) {
  const int low = _mm256_movemask_ps(_mm256_cmp_ps(a.low, b.low, _CMP_NLT_UQ)),
            high = _mm256_movemask_ps(_mm256_cmp_ps(a.high, b.high, _CMP_NLT_UQ));
  return static_cast<uint32_t>(low | high << 8);
}
// Of each set of eight lanes, where they come from when they are moved together; the rest repeats lane 0.
struct SelectedLanes {
  uint64_t of[256];
  constexpr SelectedLanes() : of() {
    for (unsigned lanes = 0; lanes < 256; lanes++)
      for (unsigned lane = 0, to = 0; lane < 8; lane++)
        if (lanes >> lane & 1u) of[lanes] |= static_cast<uint64_t>(lane) << 8 * to++;
  }
};
static constexpr SelectedLanes kSelectedLanes;
static inline void storeSelected(float* p, f32x16 v, uint32_t lanes) {
  const auto eight = [](float* to, __m256 from, uint32_t mask) {
    const __m256i order =
        _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(&kSelectedLanes.of[mask])));
    _mm256_storeu_ps(to, _mm256_permutevar8x32_ps(from, order));
  };
  eight(p, v.low, lanes & 255u);
  eight(p + __builtin_popcount(lanes & 255u), v.high, lanes >> 8);
}
template <int N>
static inline f32x16 swapLanes(f32x16 a) {
  if (N == 1) return {_mm256_permute_ps(a.low, 0xb1), _mm256_permute_ps(a.high, 0xb1)};
  if (N == 2) return {_mm256_permute_ps(a.low, 0x4e), _mm256_permute_ps(a.high, 0x4e)};
  if (N == 4) return {_mm256_permute2f128_ps(a.low, a.low, 1), _mm256_permute2f128_ps(a.high, a.high, 1)};
  return {a.high, a.low};
}
static inline f32x16 abs(f32x16 v) {
  const __m256 sign = _mm256_set1_ps(-0.0f);
  return {_mm256_andnot_ps(sign, v.low), _mm256_andnot_ps(sign, v.high)};
}
static inline f32x16 copySign(f32x16 magnitude, f32x16 sign) {
  const __m256 bit = _mm256_set1_ps(-0.0f);
  return {_mm256_or_ps(_mm256_andnot_ps(bit, magnitude.low), _mm256_and_ps(bit, sign.low)),
          _mm256_or_ps(_mm256_andnot_ps(bit, magnitude.high), _mm256_and_ps(bit, sign.high))};
}

static inline i32x16 set1Int(int32_t x) { return {_mm256_set1_epi32(x), _mm256_set1_epi32(x)}; }
static inline i32x16 add(i32x16 a, i32x16 b) {
  return {_mm256_add_epi32(a.low, b.low), _mm256_add_epi32(a.high, b.high)};
}
static inline i32x16 min(i32x16 a, i32x16 b) {
  return {_mm256_min_epi32(a.low, b.low), _mm256_min_epi32(a.high, b.high)};
}
static inline i32x16 max(i32x16 a, i32x16 b) {
  return {_mm256_max_epi32(a.low, b.low), _mm256_max_epi32(a.high, b.high)};
}
static inline i32x16 sub(i32x16 a, i32x16 b) {
  return {_mm256_sub_epi32(a.low, b.low), _mm256_sub_epi32(a.high, b.high)};
}
template <int N>
static inline i32x16 shiftLeft(i32x16 v) {
  return {_mm256_slli_epi32(v.low, N), _mm256_slli_epi32(v.high, N)};
}
template <int N>
static inline i32x16 shiftRight(i32x16 v) {
  return {_mm256_srai_epi32(v.low, N), _mm256_srai_epi32(v.high, N)};
}
static inline i32x16 asInt(f32x16 v) { return {_mm256_castps_si256(v.low), _mm256_castps_si256(v.high)}; }
static inline f32x16 asFloat(i32x16 v) { return {_mm256_castsi256_ps(v.low), _mm256_castsi256_ps(v.high)}; }
static inline f32x16 toFloat(i32x16 v) { return {_mm256_cvtepi32_ps(v.low), _mm256_cvtepi32_ps(v.high)}; }

static inline float reduceAdd(f32x16 v) {
  const __m256 eight = _mm256_add_ps(v.low, v.high);
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}
static inline float reduceMax(f32x16 v) {
  const __m256 eight = _mm256_max_ps(v.low, v.high);
  const __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
}
static inline void reduceMaxEach(const f32x16 v[4], float out[4]) {
  for (int j = 0; j < 4; j++) out[j] = reduceMax(v[j]);
}

}  // namespace spillway::SPILLWAY_ISA
