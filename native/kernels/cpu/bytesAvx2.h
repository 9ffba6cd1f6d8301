// A vector of 64 bytes as two 256-bit registers. Included by dotAvx2.h and dotAvxVnni.h.
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

}  // namespace spillway::SPILLWAY_ISA
