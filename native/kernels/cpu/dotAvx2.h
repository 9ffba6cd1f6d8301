// vpmaddubsw: pairs of products, saturating at 16 bits. Included by dot.h only.
#pragma once

namespace spillway::SPILLWAY_ISA {

struct Bytes {
  __m256i low, high;
};

static inline Bytes loadBytes(const uint8_t* p) {
  return {_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)),
          _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p + 32))};
}
static inline void storeBytes(uint8_t* p, Bytes a) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), a.low);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p + 32), a.high);
}
static inline Bytes either(Bytes a, Bytes b) {
  return {_mm256_or_si256(a.low, b.low), _mm256_or_si256(a.high, b.high)};
}
static inline Bytes field(Bytes a, int shift, int mask) {
  const __m256i bits = _mm256_set1_epi8(static_cast<char>(mask));
  if (shift == 0) return {_mm256_and_si256(a.low, bits), _mm256_and_si256(a.high, bits)};
  const __m128i count = _mm_cvtsi32_si128(shift < 0 ? -shift : shift);
  if (shift < 0)
    return {_mm256_and_si256(_mm256_sll_epi16(a.low, count), bits),
            _mm256_and_si256(_mm256_sll_epi16(a.high, count), bits)};
  return {_mm256_and_si256(_mm256_srl_epi16(a.low, count), bits),
          _mm256_and_si256(_mm256_srl_epi16(a.high, count), bits)};
}
static inline Bytes lookUp(const uint8_t (&table)[16], Bytes a) {
  const __m256i both = _mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(table)));
  return {_mm256_shuffle_epi8(both, a.low), _mm256_shuffle_epi8(both, a.high)};
}
static inline f32x16 byteToFloat(Bytes a, int i) {
  const __m128i count = _mm_cvtsi32_si128(8 * i);
  const __m256i byte = _mm256_set1_epi32(255);
  return {_mm256_cvtepi32_ps(_mm256_and_si256(_mm256_srl_epi32(a.low, count), byte)),
          _mm256_cvtepi32_ps(_mm256_and_si256(_mm256_srl_epi32(a.high, count), byte))};
}
static inline f32x16 uint8ToFloat(const uint8_t* p) {
  const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  return {_mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(bytes)),
          _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_srli_si128(bytes, 8)))};
}
static inline f32x16 int8ToFloat(const uint8_t* p) {
  const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  return {_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(bytes)),
          _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_srli_si128(bytes, 8)))};
}
static inline __m128i narrow(i32x16 a) {
  const __m256i words = _mm256_packs_epi32(a.low, a.high);  // 128-bit lanes: low 0-3, high 0-3 | low 4-7, high 4-7
  const __m256i ordered = _mm256_permute4x64_epi64(words, 0xd8);
  return _mm_packs_epi16(_mm256_castsi256_si128(ordered), _mm256_extracti128_si256(ordered, 1));
}
static inline void storeInt8(int8_t* p, i32x16 first, i32x16 second, int32_t sums[2]) {
  const __m256i bytes = _mm256_set_m128i(narrow(second), narrow(first));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), bytes);
  // vpsadbw adds up eight unsigned bytes: made unsigned by 128, of which a half of sixteen then holds 2048 too much.
  const __m256i eights =
      _mm256_sad_epu8(_mm256_xor_si256(bytes, _mm256_set1_epi8(static_cast<char>(0x80))), _mm256_setzero_si256());
  const __m256i sixteens = _mm256_add_epi64(eights, _mm256_unpackhi_epi64(eights, eights));
  sums[0] = _mm_cvtsi128_si32(_mm256_castsi256_si128(sixteens)) - 2048;
  sums[1] = _mm_cvtsi128_si32(_mm256_extracti128_si256(sixteens, 1)) - 2048;
}

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
static inline void dot(const Source& source, size_t group, int first, const QuantisedTile& tile, i32x16 (&sum)[R][P]) {
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
          __builtin_memcpy(&four, tile.values[r] + 4 * v, 4);
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
