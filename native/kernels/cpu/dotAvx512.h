// vpdpbusd: sixteen outputs by four inputs an instruction. Included by dot.h only.
#pragma once

namespace spillway::SPILLWAY_ISA {

struct Bytes {
  __m512i v;
};

static inline Bytes loadBytes(const uint8_t* p) { return {_mm512_loadu_si512(p)}; }
static inline void storeBytes(uint8_t* p, Bytes a) { _mm512_storeu_si512(p, a.v); }
static inline Bytes either(Bytes a, Bytes b) { return {_mm512_or_si512(a.v, b.v)}; }
static inline Bytes field(Bytes a, int shift, int mask) {
  const __m512i bits = _mm512_set1_epi8(static_cast<char>(mask));
  if (shift == 0) return {_mm512_and_si512(a.v, bits)};
  const __m128i count = _mm_cvtsi32_si128(shift < 0 ? -shift : shift);
  return {_mm512_and_si512(shift < 0 ? _mm512_sll_epi16(a.v, count) : _mm512_srl_epi16(a.v, count), bits)};
}
static inline Bytes lookUp(const uint8_t (&table)[16], Bytes a) {
  const __m512i four = _mm512_broadcast_i32x4(_mm_loadu_si128(reinterpret_cast<const __m128i*>(table)));
  return {_mm512_shuffle_epi8(four, a.v)};
}
static inline f32x16 byteToFloat(Bytes a, int i) {
  const __m512i shifted = _mm512_srl_epi32(a.v, _mm_cvtsi32_si128(8 * i));
  return {_mm512_cvtepi32_ps(_mm512_and_si512(shifted, _mm512_set1_epi32(255)))};
}
static inline f32x16 uint8ToFloat(const uint8_t* p) {
  return {_mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))))};
}
static inline f32x16 int8ToFloat(const uint8_t* p) {
  return {_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))))};
}
static inline __m128i narrow(i32x16 a) { return _mm512_cvtepi32_epi8(a.v); }
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
// Two rows, first and second halves each, in order.
static inline __m512i narrow(i32x16 first, i32x16 second, i32x16 nextFirst, i32x16 nextSecond) {
  // Within 128 bits four bytes each of the first and second halves of the one row, then of the other.
  const __m512i bytes =
      _mm512_packs_epi16(_mm512_packs_epi32(first.v, second.v), _mm512_packs_epi32(nextFirst.v, nextSecond.v));
  return _mm512_permutexvar_epi32(_mm512_set_epi32(15, 11, 7, 3, 14, 10, 6, 2, 13, 9, 5, 1, 12, 8, 4, 0), bytes);
}
static inline void storeRows(TileValues& values, const i32x16 (&first)[4], const i32x16 (&second)[4]) {
  _mm512_storeu_si512(values[0], narrow(first[0], second[0], first[1], second[1]));
  _mm512_storeu_si512(values[2], narrow(first[2], second[2], first[3], second[3]));
}
static inline void storeRows(TileValues& values, const i32x16 (&first)[4], const i32x16 (&second)[4],
                             int16_t (&sums)[2][4]) {
  // As in storeInt8(): of sixteen bytes each, at the begin of 128 bits.
  const auto sumsOf = [](__m512i bytes) {
    const __m512i eights =
        _mm512_sad_epu8(_mm512_xor_si512(bytes, _mm512_set1_epi8(static_cast<char>(0x80))), _mm512_setzero_si512());
    return _mm512_add_epi64(eights, _mm512_unpackhi_epi64(eights, eights));
  };
  const __m512i rows = narrow(first[0], second[0], first[1], second[1]),
                others = narrow(first[2], second[2], first[3], second[3]);
  _mm512_storeu_si512(values[0], rows);
  _mm512_storeu_si512(values[2], others);
  const __m512i order = _mm512_castsi128_si512(_mm_set_epi16(56, 40, 24, 8, 48, 32, 16, 0));
  const __m512i all = _mm512_permutex2var_epi16(sumsOf(rows), order, sumsOf(others));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(sums), _mm_sub_epi16(_mm512_castsi512_si128(all), _mm_set1_epi16(2048)));
}

static constexpr int dotZero(int, int zero) { return zero; }

template <int Bits, int R, int P, int V, typename Source>
static inline void dot(const Source& source, size_t group, int first, const TileValues& values, i32x16 (&sum)[R][P]) {
  SPILLWAY_UNROLL(8)
  for (int v = 0; v < V; v++) {
    Bytes weights[P];
    SPILLWAY_UNROLL(6)
    for (int p = 0; p < P; p++) weights[p] = source.vector(group, p, first + v);
    SPILLWAY_UNROLL(8)
    for (int r = 0; r < R; r++) {
      int32_t four;
      __builtin_memcpy(&four, values[r] + 4 * (first + v), 4);
      const __m512i inputs = _mm512_set1_epi32(four);
      SPILLWAY_UNROLL(6)
      for (int p = 0; p < P; p++) sum[r][p].v = _mm512_dpbusd_epi32(sum[r][p].v, weights[p].v, inputs);
    }
  }
}

}  // namespace spillway::SPILLWAY_ISA
