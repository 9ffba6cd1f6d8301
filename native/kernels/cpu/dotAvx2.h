// vpmaddubsw: pairs of products, saturating at 16 bits. Included by dot.h only.
#pragma once
#include "bytesAvx2.h"

namespace spillway::SPILLWAY_ISA {

// How many pair products of `bits` bits by -127..127 add up within 16 bits: the sum is widened after as many.
static constexpr int stepsInWords(int bits) { return bits <= 4 ? 8 : bits == 5 ? 4 : bits == 6 ? 2 : 1; }
static_assert(2 * 15 * 127 * 8 <= 32767 && 2 * 31 * 127 * 4 <= 32767 && 2 * 63 * 127 * 2 <= 32767 &&
                  2 * 128 * 127 <= 32767,
              "no saturation");

// 8-bit values do not fit: they are made signed again, and the sign goes over to the activation, so that no zero point
// is left.
static constexpr int dotZero(int bits, int zero) { return bits == 8 ? 0 : zero; }

// The empty statement keeps g++ from adding up in a tree, for which there are not enough registers.
static inline __m256i added(__m256i sum, __m256i pairs) {
  sum = _mm256_add_epi16(sum, pairs);
  __asm__("" : "+x"(sum));
  return sum;
}

template <int Bits, int R, int P, int V, typename Source>
static inline void dot(const Source& source, size_t group, int first, const TileValues& values, i32x16 (&sum)[R][P]) {
  constexpr int kSteps = stepsInWords(Bits) < V ? stepsInWords(Bits) : V;
  const __m256i ones = _mm256_set1_epi16(1);
  SPILLWAY_UNROLL(4)
  for (int p = 0; p < P; p++) {
    SPILLWAY_UNROLL(8)
    for (int begin = first; begin < first + V; begin += kSteps) {
      __m256i low[R], high[R];
      SPILLWAY_UNROLL(8)
      for (int v = begin; v < begin + kSteps; v++) {
        Bytes weights = source.vector(group, p, v);
        Bytes signs = weights;
        if constexpr (Bits == 8) {
          const __m256i flip = _mm256_set1_epi8(static_cast<char>(0x80));
          signs = {_mm256_xor_si256(weights.low, flip), _mm256_xor_si256(weights.high, flip)};
          weights = {_mm256_abs_epi8(signs.low), _mm256_abs_epi8(signs.high)};
        }
        SPILLWAY_UNROLL(8)
        for (int r = 0; r < R; r++) {
          int32_t four;
          __builtin_memcpy(&four, values[r] + 4 * v, 4);
          const __m256i inputs = _mm256_set1_epi32(four);
          const __m256i lowPairs =
              _mm256_maddubs_epi16(weights.low, Bits == 8 ? _mm256_sign_epi8(inputs, signs.low) : inputs);
          const __m256i highPairs =
              _mm256_maddubs_epi16(weights.high, Bits == 8 ? _mm256_sign_epi8(inputs, signs.high) : inputs);
          low[r] = v == begin ? lowPairs : added(low[r], lowPairs);
          high[r] = v == begin ? highPairs : added(high[r], highPairs);
        }
      }
      SPILLWAY_UNROLL(8)
      for (int r = 0; r < R; r++) {
        sum[r][p].low = _mm256_add_epi32(sum[r][p].low, _mm256_madd_epi16(low[r], ones));
        sum[r][p].high = _mm256_add_epi32(sum[r][p].high, _mm256_madd_epi16(high[r], ones));
      }
    }
  }
}

}  // namespace spillway::SPILLWAY_ISA
