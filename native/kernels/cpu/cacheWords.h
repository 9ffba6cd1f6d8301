// Products of codes with integers of 16 bits. AVX2's products of bytes overflow with codes of 8 bits, unless these are
// cut into nibbles and the integers into bytes: products of words take half as many instructions; with codes of 4 bits
// as many, but half the registers. Sums are the same integers as those of bytes, so all instruction sets agree: the
// largest, of kPartTokens products of 255 and 32512, just fits 32 bits. A quad of integers, which meets the four codes
// of a lane, is stored as 0, 2, 1, 3: codes come apart into even and odd ones. Included by sources that are compiled
// for each instruction set.
#pragma once
#include "CacheLayout.h"
#include "simdBytes.h"

namespace spillway::SPILLWAY_ISA {

template <int Digits>
constexpr bool kMultipliesWords = SPILLWAY_ISA_LEVEL == 1 && Digits == 2;

// The sums of Q queries and U units of lanes.
template <int Q, int U>
struct WordTile;

#if SPILLWAY_ISA_LEVEL == 1

template <int Q, int U>
struct WordTile {
  Wide sum[Q][U];

  void clear() {
    SPILLWAY_UNROLL(8)
    for (int q = 0; q < Q; q++) {
      SPILLWAY_UNROLL(4)
      for (int u = 0; u < U; u++) sum[q][u] = zeroWide();
    }
  }
  // Four codes a lane times the quad of each query, `queryStride` bytes apart.
  void add(const Codes (&codes)[U], const int8_t* quads, size_t queryStride) {
    __m256i even[U], odd[U];
    SPILLWAY_UNROLL(4)
    for (int u = 0; u < U; u++)
      even[u] = _mm256_and_si256(codes[u].v, _mm256_set1_epi16(255)), odd[u] = _mm256_srli_epi16(codes[u].v, 8);
    SPILLWAY_UNROLL(8)
    for (int q = 0; q < Q; q++) {
      int32_t pairs[2];
      __builtin_memcpy(pairs, quads + q * queryStride, sizeof pairs);
      const __m256i ofEven = _mm256_set1_epi32(pairs[0]), ofOdd = _mm256_set1_epi32(pairs[1]);
      SPILLWAY_UNROLL(4)
      for (int u = 0; u < U; u++)
        sum[q][u] = Wide::of(_mm256_add_epi32(
            sum[q][u].bits(), _mm256_add_epi32(_mm256_madd_epi16(even[u], ofEven), _mm256_madd_epi16(odd[u], ofOdd))));
    }
  }
  void write(float* to, size_t queryStride) const {
    SPILLWAY_UNROLL(8)
    for (int q = 0; q < Q; q++) {
      SPILLWAY_UNROLL(4)
      for (int u = 0; u < U; u++) combine(to + q * queryStride + u * kUnitLanes, sum[q][u]);
    }
  }
};

// 16 integers of at most 16 bits as four quads.
static inline void storeWords(int8_t* to, i32x16 v) {
  const __m256i order = _mm256_setr_epi8(0, 1, 4, 5, 2, 3, 6, 7, 8, 9, 12, 13, 10, 11, 14, 15, 0, 1, 4, 5, 2, 3, 6, 7,
                                         8, 9, 12, 13, 10, 11, 14, 15);
  const __m256i words = _mm256_permute4x64_epi64(_mm256_packs_epi32(v.low, v.high), 0xd8);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), _mm256_shuffle_epi8(words, order));
}

#else

static inline void storeWords(int8_t*, i32x16) {}  // never called

#endif

}  // namespace spillway::SPILLWAY_ISA
