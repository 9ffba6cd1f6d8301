// f32x16 as one 512-bit register. Included by simd.h only.
#pragma once
// g++ 12's own intrinsics start from a register left undefined on purpose, and then warn about it (GCC bug 105593).
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#include <immintrin.h>
#pragma GCC diagnostic pop
#else
#include <immintrin.h>
#endif

#if !defined(__AVX512F__) || !defined(__AVX512BW__) || !defined(__AVX512DQ__) || !defined(__AVX512VL__) || \
    !defined(__AVX512VNNI__)
#error "SPILLWAY_ISA=avx512 needs -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx512vnni -mavx2 -mfma -mf16c"
#endif

namespace spillway::SPILLWAY_ISA {

struct f32x16 {
  __m512 v;
};
struct i32x16 {
  __m512i v;
};

static inline __mmask16 firstLanes(size_t n) { return static_cast<__mmask16>((1u << n) - 1u); }

static inline f32x16 set1(float x) { return {_mm512_set1_ps(x)}; }
static inline f32x16 zero() { return {_mm512_setzero_ps()}; }
static inline f32x16 load(const float* p) { return {_mm512_loadu_ps(p)}; }
static inline f32x16 loadPartial(const float* p, size_t n, float fill) {
  return {_mm512_mask_loadu_ps(_mm512_set1_ps(fill), firstLanes(n), p)};
}
static inline void store(float* p, f32x16 a) { _mm512_storeu_ps(p, a.v); }
static inline void storePartial(float* p, f32x16 a, size_t n) { _mm512_mask_storeu_ps(p, firstLanes(n), a.v); }
static inline f32x16 loadHalf(const uint16_t* p) {
  return {_mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)))};
}
static inline f32x16 loadHalfPartial(const uint16_t* p, size_t n) {
  return {_mm512_cvtph_ps(_mm256_maskz_loadu_epi16(firstLanes(n), p))};
}
static inline f32x16 widenBfloat16(__m256i bits) {
  return {_mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16))};
}
static inline f32x16 loadBfloat16(const uint16_t* p) {
  return widenBfloat16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
}
static inline f32x16 loadBfloat16Partial(const uint16_t* p, size_t n) {
  return widenBfloat16(_mm256_maskz_loadu_epi16(firstLanes(n), p));
}
static inline __m256i narrowToHalf(f32x16 a) {
  return _mm512_cvtps_ph(a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
static inline void storeHalf(uint16_t* p, f32x16 a) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), narrowToHalf(a));
}
static inline void storeHalfPartial(uint16_t* p, f32x16 a, size_t n) {
  _mm256_mask_storeu_epi16(p, firstLanes(n), narrowToHalf(a));
}

static inline f32x16 add(f32x16 a, f32x16 b) { return {_mm512_add_ps(a.v, b.v)}; }
static inline f32x16 sub(f32x16 a, f32x16 b) { return {_mm512_sub_ps(a.v, b.v)}; }
static inline f32x16 mul(f32x16 a, f32x16 b) { return {_mm512_mul_ps(a.v, b.v)}; }
static inline f32x16 div(f32x16 a, f32x16 b) { return {_mm512_div_ps(a.v, b.v)}; }
static inline f32x16 fma(f32x16 a, f32x16 b, f32x16 c) { return {_mm512_fmadd_ps(a.v, b.v, c.v)}; }
static inline f32x16 sqrt(f32x16 a) { return {_mm512_sqrt_ps(a.v)}; }
static inline f32x16 max(f32x16 a, f32x16 b) { return {_mm512_max_ps(a.v, b.v)}; }
static inline f32x16 min(f32x16 a, f32x16 b) { return {_mm512_min_ps(a.v, b.v)}; }
static inline f32x16 selectLess(f32x16 a, f32x16 b, f32x16 x, f32x16 y) {
  return {_mm512_mask_blend_ps(_mm512_cmp_ps_mask(a.v, b.v, _CMP_LT_OQ), y.v, x.v)};
}
static inline uint32_t notLess(f32x16 a, f32x16 b) { return _mm512_cmp_ps_mask(a.v, b.v, _CMP_NLT_UQ); }
static inline void storeSelected(float* p, f32x16 v, uint32_t lanes) {
  _mm512_storeu_ps(p, _mm512_maskz_compress_ps(static_cast<__mmask16>(lanes), v.v));
}
template <int N>
static inline f32x16 swapLanes(f32x16 a) {
  if (N == 1) return {_mm512_permute_ps(a.v, 0xb1)};
  if (N == 2) return {_mm512_permute_ps(a.v, 0x4e)};
  return {_mm512_shuffle_f32x4(a.v, a.v, N == 4 ? 0xb1 : 0x4e)};
}
static inline f32x16 abs(f32x16 a) { return {_mm512_abs_ps(a.v)}; }
static inline f32x16 copySign(f32x16 magnitude, f32x16 sign) {
  const __m512 bit = _mm512_set1_ps(-0.0f);
  return {_mm512_or_ps(_mm512_andnot_ps(bit, magnitude.v), _mm512_and_ps(bit, sign.v))};
}

static inline i32x16 set1Int(int32_t x) { return {_mm512_set1_epi32(x)}; }
static inline i32x16 add(i32x16 a, i32x16 b) { return {_mm512_add_epi32(a.v, b.v)}; }
static inline i32x16 min(i32x16 a, i32x16 b) { return {_mm512_min_epi32(a.v, b.v)}; }
static inline i32x16 max(i32x16 a, i32x16 b) { return {_mm512_max_epi32(a.v, b.v)}; }
static inline i32x16 sub(i32x16 a, i32x16 b) { return {_mm512_sub_epi32(a.v, b.v)}; }
template <int N>
static inline i32x16 shiftLeft(i32x16 a) {
  return {_mm512_slli_epi32(a.v, N)};
}
template <int N>
static inline i32x16 shiftRight(i32x16 a) {
  return {_mm512_srai_epi32(a.v, N)};
}
static inline i32x16 asInt(f32x16 a) { return {_mm512_castps_si512(a.v)}; }
static inline f32x16 asFloat(i32x16 a) { return {_mm512_castsi512_ps(a.v)}; }
static inline f32x16 toFloat(i32x16 a) { return {_mm512_cvtepi32_ps(a.v)}; }

static inline float reduceAdd(f32x16 a) {
  const __m256 eight = _mm256_add_ps(_mm512_castps512_ps256(a.v), _mm512_extractf32x8_ps(a.v, 1));
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}
static inline float reduceMax(f32x16 a) {
  const __m256 eight = _mm256_max_ps(_mm512_castps512_ps256(a.v), _mm512_extractf32x8_ps(a.v, 1));
  const __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
}
static inline void reduceMaxEach(const f32x16 a[4], float out[4]) {
  const __m512 firstHalves =
      _mm512_max_ps(_mm512_shuffle_f32x4(a[0].v, a[1].v, 0x44), _mm512_shuffle_f32x4(a[0].v, a[1].v, 0xee));
  const __m512 secondHalves =
      _mm512_max_ps(_mm512_shuffle_f32x4(a[2].v, a[3].v, 0x44), _mm512_shuffle_f32x4(a[2].v, a[3].v, 0xee));
  const __m512 fours = _mm512_max_ps(_mm512_shuffle_f32x4(firstHalves, secondHalves, 0x88),
                                     _mm512_shuffle_f32x4(firstHalves, secondHalves, 0xdd));
  const __m512 twos = _mm512_max_ps(fours, _mm512_permute_ps(fours, 0x4e));
  const __m512 ones = _mm512_max_ps(twos, _mm512_permute_ps(twos, 0xb1));
  _mm_storeu_ps(out, _mm512_castps512_ps128(_mm512_permutexvar_ps(
                         _mm512_set_epi32(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 12, 8, 4, 0), ones)));
}

}  // namespace spillway::SPILLWAY_ISA
