// Exact sums of products of 16-bit integers, two for each of 16 lanes at a time. Included by sources that are compiled
// for each instruction set.
//   storePairs(p, first, second)   two integers of 16 bits for each lane, 64 bytes
//   dotPairs(sum, p, pair)         sum[lane] += first[lane] * pair[0] + second[lane] * pair[1], modulo 2^32
//   storeWords(p, v)               the low 16 bits of each lane, one after another: 32 bytes
// How a lane's two stand in memory is the instruction set's own: NEON multiplies four words by one of them at once, the
// others want the two side by side.
#pragma once
#include "simd.h"

namespace spillway::SPILLWAY_ISA {

#if SPILLWAY_ISA_LEVEL == 2

static inline void storePairs(int16_t* p, i32x16 first, i32x16 second) {
  const __m512i high = _mm512_slli_epi32(second.v, 16);
  _mm512_storeu_si512(p, _mm512_mask_blend_epi16(0xaaaaaaaa, first.v, high));
}
static inline i32x16 dotPairs(i32x16 sum, const int16_t* p, const int16_t* pair) {
  int32_t two;
  __builtin_memcpy(&two, pair, 4);
  return {_mm512_dpwssd_epi32(sum.v, _mm512_loadu_si512(p), _mm512_set1_epi32(two))};
}
static inline void storeWords(int16_t* p, i32x16 v) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_cvtepi32_epi16(v.v));
}

#elif SPILLWAY_ISA_LEVEL == 1

static inline void storePairs(int16_t* p, i32x16 first, i32x16 second) {
  __m256i* to = reinterpret_cast<__m256i*>(p);
  _mm256_storeu_si256(to, _mm256_blend_epi16(first.low, _mm256_slli_epi32(second.low, 16), 0xaa));
  _mm256_storeu_si256(to + 1, _mm256_blend_epi16(first.high, _mm256_slli_epi32(second.high, 16), 0xaa));
}
static inline i32x16 dotPairs(i32x16 sum, const int16_t* p, const int16_t* pair) {
  int32_t two;
  __builtin_memcpy(&two, pair, 4);
  const __m256i* from = reinterpret_cast<const __m256i*>(p);
  const __m256i by = _mm256_set1_epi32(two);
  return {_mm256_add_epi32(sum.low, _mm256_madd_epi16(_mm256_loadu_si256(from), by)),
          _mm256_add_epi32(sum.high, _mm256_madd_epi16(_mm256_loadu_si256(from + 1), by))};
}
static inline void storeWords(int16_t* p, i32x16 v) {
  const __m256i words = _mm256_packs_epi32(v.low, v.high);  // 128-bit lanes: low 0-3, high 0-3 | low 4-7, high 4-7
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm256_permute4x64_epi64(words, 0xd8));
}

#elif SPILLWAY_ISA_LEVEL == 3

static inline void storeWords(int16_t* p, i32x16 v) {
  vst1q_s16(p, vcombine_s16(vmovn_s32(v.a), vmovn_s32(v.b)));
  vst1q_s16(p + 8, vcombine_s16(vmovn_s32(v.c), vmovn_s32(v.d)));
}
static inline void storePairs(int16_t* p, i32x16 first, i32x16 second) {
  storeWords(p, first);
  storeWords(p + 16, second);
}
static inline i32x16 dotPairs(i32x16 sum, const int16_t* p, const int16_t* pair) {
  SPILLWAY_UNROLL(2)
  for (int i = 0; i < 2; i++) {
    const int16x8_t low = vld1q_s16(p + 16 * i), high = vld1q_s16(p + 16 * i + 8), by = vdupq_n_s16(pair[i]);
    sum.a = vmlal_s16(sum.a, vget_low_s16(low), vget_low_s16(by));
    sum.b = vmlal_high_s16(sum.b, low, by);
    sum.c = vmlal_s16(sum.c, vget_low_s16(high), vget_low_s16(by));
    sum.d = vmlal_high_s16(sum.d, high, by);
  }
  return sum;
}

#else

static inline void storePairs(int16_t* p, i32x16 first, i32x16 second) {
  for (int i = 0; i < 16; i++) {
    p[2 * i] = static_cast<int16_t>(static_cast<uint16_t>(first.lane[i]));
    p[2 * i + 1] = static_cast<int16_t>(static_cast<uint16_t>(second.lane[i]));
  }
}
static inline i32x16 dotPairs(i32x16 sum, const int16_t* p, const int16_t* pair) {
  for (int i = 0; i < 16; i++) {
    const uint32_t products = static_cast<uint32_t>(p[2 * i] * pair[0]) + static_cast<uint32_t>(p[2 * i + 1] * pair[1]);
    sum.lane[i] = static_cast<int32_t>(static_cast<uint32_t>(sum.lane[i]) + products);
  }
  return sum;
}
static inline void storeWords(int16_t* p, i32x16 v) {
  for (int i = 0; i < 16; i++) p[i] = static_cast<int16_t>(static_cast<uint16_t>(v.lane[i]));
}

#endif

}  // namespace spillway::SPILLWAY_ISA
