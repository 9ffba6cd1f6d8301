// The Walsh-Hadamard transform of up to 64 numbers, before they are rounded to few bits: it spreads what stands out in
// a few elements over all of them, so that a group's range is not theirs alone. Products of two vectors that were both
// transformed are as before. Included by sources that are compiled for each instruction set; sums and differences in a
// fixed order, so that all of them give the same bits.
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

// Signs by which lanes count in sums and differences with the lane whose number differs in bit 0, 1, 2, 3.
alignas(64) static const float kHadamardSigns[4][16] = {
    {0.0f, -0.0f, 0.0f, -0.0f, 0.0f, -0.0f, 0.0f, -0.0f, 0.0f, -0.0f, 0.0f, -0.0f, 0.0f, -0.0f, 0.0f, -0.0f},
    {0.0f, 0.0f, -0.0f, -0.0f, 0.0f, 0.0f, -0.0f, -0.0f, 0.0f, 0.0f, -0.0f, -0.0f, 0.0f, 0.0f, -0.0f, -0.0f},
    {0.0f, 0.0f, 0.0f, 0.0f, -0.0f, -0.0f, -0.0f, -0.0f, 0.0f, 0.0f, 0.0f, 0.0f, -0.0f, -0.0f, -0.0f, -0.0f},
    {0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, -0.0f, -0.0f, -0.0f, -0.0f, -0.0f, -0.0f, -0.0f, -0.0f},
};

template <int Bit>
static inline f32x16 hadamardLanes(f32x16 x) {
  const f32x16 signedOwn = asFloat(add(asInt(x), asInt(load(kHadamardSigns[Bit]))));
  return add(swapLanes<1 << Bit>(x), signedOwn);
}

// One round for each bit of the index, the lowest first: of two numbers whose indices differ in it, their sum and their
// difference.
template <int Vectors>
static inline void hadamardVectors(const float* from, size_t n, float factor, float* to) {
  const unsigned bits = hadamardBits(n);
  f32x16 x[Vectors];
  SPILLWAY_UNROLL(4)
  for (int v = 0; v < Vectors; v++) {
    const size_t left = n - 16 * static_cast<size_t>(v);
    x[v] = loadPartial(from + 16 * v, left < 16 ? left : 16);
    if (bits > 0) x[v] = hadamardLanes<0>(x[v]);
    if (bits > 1) x[v] = hadamardLanes<1>(x[v]);
    if (bits > 2) x[v] = hadamardLanes<2>(x[v]);
    if (bits > 3) x[v] = hadamardLanes<3>(x[v]);
  }
  const auto round = [&x](int low, int high) __attribute__((always_inline)) {
    const f32x16 sum = add(x[low], x[high]), difference = sub(x[low], x[high]);
    x[low] = sum;
    x[high] = difference;
  };
  if (bits > 4) {
    SPILLWAY_UNROLL(2)
    for (int v = 0; v + 1 < Vectors; v += 2) round(v, v + 1);
  }
  if (bits > 5) {
    SPILLWAY_UNROLL(2)
    for (int v = 0; v + 2 < Vectors; v++) round(v, v + 2);
  }
  SPILLWAY_UNROLL(4)
  for (int v = 0; v < Vectors; v++) store(to + 16 * v, mul(x[v], set1(factor)));
}

// to[i] = factor * (transform of from)[i]; n numbers, and `to` has room for kMostHadamard.
static inline void hadamard(const float* from, size_t n, float factor, float* to) {
  switch ((n + 15) / 16) {
    case 4: return hadamardVectors<4>(from, n, factor, to);
    case 3: return hadamardVectors<3>(from, n, factor, to);
    case 2: return hadamardVectors<2>(from, n, factor, to);
    default: return hadamardVectors<1>(from, n, factor, to);
  }
}

}  // namespace spillway::SPILLWAY_ISA
