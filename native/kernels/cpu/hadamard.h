// The Walsh-Hadamard transform of up to 64 numbers, before they are rounded to few bits: it spreads what stands out in a few elements over all of them, so
// that a group's range is not theirs alone. Products of two vectors that were both transformed are as before. Included by sources that are
// compiled for each instruction set; sums and differences in a fixed order, so that all of them give the same bits.
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "simd.h"

namespace spillway::SPILLWAY_ISA {

constexpr size_t kMostHadamard = 64;

// n numbers, 1 to kMostHadamard, are transformed in blocks of the largest power of two that divides n.
static inline unsigned hadamardBits(size_t n) { return static_cast<unsigned>(__builtin_ctzll(n)); }

// A transform multiplies products by the size of a block. Each side takes back a power of two, so that this is exact.
static inline float hadamardKeyFactor(size_t n) { return 1.0f / static_cast<float>(1u << hadamardBits(n) / 2); }
static inline float hadamardQueryFactor(size_t n) { return 1.0f / static_cast<float>(1u << (hadamardBits(n) + 1) / 2); }

// One round for each bit of the index, the lowest first; every round puts sums into the first half and differences into the second.
template <unsigned Bits>
static inline void hadamardBlock(float* block) {
  constexpr size_t kHalf = (size_t{1} << Bits) / 2;
  float other[2 * kHalf + 1];
  for (unsigned round = 0; round < Bits; round++) {
    float* from = round % 2 == 0 ? block : other;
    float* to = round % 2 == 0 ? other : block;
    for (size_t i = 0; i < kHalf; i++) to[i] = from[2 * i] + from[2 * i + 1];
    for (size_t i = 0; i < kHalf; i++) to[kHalf + i] = from[2 * i] - from[2 * i + 1];
  }
  if (Bits % 2 == 1)
    for (size_t i = 0; i < 2 * kHalf; i++) block[i] = other[i];
}

// to[i] = factor * (transform of from)[i]; n numbers, and `to` has room for kMostHadamard.
static inline void hadamard(const float* from, size_t n, float factor, float* to) {
  for (size_t i = 0; i < n; i++) to[i] = from[i];
  const unsigned bits = hadamardBits(n);
  for (size_t i = 0; i < n; i += size_t{1} << bits) {
    switch (bits) {
      case 6: hadamardBlock<6>(to + i); break;
      case 5: hadamardBlock<5>(to + i); break;
      case 4: hadamardBlock<4>(to + i); break;
      case 3: hadamardBlock<3>(to + i); break;
      case 2: hadamardBlock<2>(to + i); break;
      case 1: hadamardBlock<1>(to + i); break;
      default: break;
    }
  }
  for (size_t i = 0; i < n; i++) to[i] *= factor;
}

}  // namespace spillway::SPILLWAY_ISA
