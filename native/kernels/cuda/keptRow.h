// A row that a block goes over more than once: eight columns in a row are a thread's, and stay in its registers where
// the row is not too long. How many threads there are, and so the order of sums, follows from the row's length alone.
#pragma once
#include "Matmul.h"
#include "halfFloat.h"
#include "reduce.h"

namespace spillway::cuda {

constexpr unsigned kMostRowThreads = 512;
// Blocks of so many that a multiprocessor has at a time: what bounds their registers.
constexpr unsigned kRowBlocks = 2;
inline unsigned rowThreads(size_t n) {
  const unsigned warps = divideUp(n, 8 * kWarp);
  return kWarp * (warps < 1 ? 1 : warps < kMostRowThreads / kWarp ? warps : kMostRowThreads / kWarp);
}
inline size_t rowSharedBytes(size_t n) { return rowThreads(n) / kWarp * sizeof(float); }

// v = the first `count` of eight columns from i on, the others 0.
__device__ __forceinline__ void loadEight(const float* from, size_t i, unsigned count, float (&v)[8]) {
  if (count == 8 && reinterpret_cast<uintptr_t>(from + i) % 16 == 0) {
    const float4 low = *reinterpret_cast<const float4*>(from + i),
                 high = *reinterpret_cast<const float4*>(from + i + 4);
    v[0] = low.x, v[1] = low.y, v[2] = low.z, v[3] = low.w;
    v[4] = high.x, v[5] = high.y, v[6] = high.z, v[7] = high.w;
    return;
  }
#pragma unroll
  for (unsigned k = 0; k < 8; k++) v[k] = k < count ? from[i + k] : 0.0f;
}
__device__ __forceinline__ void storeEight(float* to, size_t i, unsigned count, const float (&v)[8]) {
  if (count == 8 && reinterpret_cast<uintptr_t>(to + i) % 16 == 0) {
    *reinterpret_cast<float4*>(to + i) = float4{v[0], v[1], v[2], v[3]};
    *reinterpret_cast<float4*>(to + i + 4) = float4{v[4], v[5], v[6], v[7]};
    return;
  }
#pragma unroll
  for (unsigned k = 0; k < 8; k++)
    if (k < count) to[i + k] = v[k];
}

struct KeptRow {
  static constexpr unsigned kTurns = 2;
  const float* from;
  size_t n;
  float kept[kTurns][8];

  __device__ __forceinline__ KeptRow(const float* from, size_t n) : from(from), n(n) {
#pragma unroll
    for (unsigned turn = 0; turn < kTurns; turn++) loadEight(from, first(turn), count(first(turn)), kept[turn]);
  }
  __device__ __forceinline__ size_t first(size_t turn) const { return 8 * (turn * blockDim.x + threadIdx.x); }
  __device__ __forceinline__ unsigned count(size_t i) const {
    return n <= i ? 0 : n - i < 8 ? static_cast<unsigned>(n - i) : 8;
  }
  // visit(i, count, v) of this thread's columns below `end`, a multiple of eight; after n there are zeros.
  template <typename Visit>
  __device__ __forceinline__ void each(size_t end, Visit visit) const {
#pragma unroll
    for (unsigned turn = 0; turn < kTurns; turn++)
      if (first(turn) < end) visit(first(turn), count(first(turn)), kept[turn]);
    for (size_t turn = kTurns; first(turn) < end; turn++) {
      float v[8];
      loadEight(from, first(turn), count(first(turn)), v);
      visit(first(turn), count(first(turn)), v);
    }
  }
  // The sum of term(v) over all columns. partials: as in reduce.h.
  template <typename Term>
  __device__ __forceinline__ float sum(float* partials, Term term) const {
    float own = 0;
    each((n + 7) / 8 * 8, [&](size_t, unsigned count, const float (&v)[8]) {
#pragma unroll
      for (unsigned k = 0; k < 8; k++)
        if (k < count) own = term(own, v[k]);
    });
    return blockSum(own, partials);
  }
};

// to = the row, changed: change(i, count, v, changed) makes of eight of its columns what they become. `to` may be where
// the row is.
template <typename Change>
__device__ __forceinline__ void storeChanged(const KeptRow& row, Change change, float* to) {
  row.each((row.n + 7) / 8 * 8, [&](size_t i, unsigned count, const float (&v)[8]) {
    float changed[8];
    change(i, count, v, changed);
    storeEight(to, i, count, changed);
  });
}

// The power of two 2^exponent; exponent from -126 to 127.
__device__ __forceinline__ float powerOfTwo(int exponent) {
  return __uint_as_float(static_cast<uint32_t>(exponent + 127) << 23);
}

// The block's row, changed likewise, as HalfRows has it.
template <typename Change>
__device__ __forceinline__ void storeHalves(const KeptRow& row, const HalfRows& to, float* partials, Change change) {
  constexpr float kInfinity = __builtin_huge_valf();
  const size_t columns = halfColumns(to.columns);
  float largest = 0;
  bool finite = true;
  row.each((row.n + 7) / 8 * 8, [&](size_t i, unsigned count, const float (&v)[8]) {
    float changed[8];
    change(i, count, v, changed);
#pragma unroll
    for (unsigned k = 0; k < 8; k++) {
      if (k >= count) continue;
      const float size = fabsf(changed[k]);
      finite = finite && size < kInfinity;
      largest = fmaxf(largest, size);
    }
  });
  largest = blockMaximum(finite ? largest : kInfinity, partials);
  const int exponent =
      static_cast<int>(__float_as_uint(largest) >> 23) - 127;  // -127 for zero and subnormal numbers, 128 for infinity
  // Rows below 2^-112 lose their last bits.
  const int shift = exponent == 128 ? 0 : min(14 - exponent, 126);
  const float factor = powerOfTwo(shift);
  uint16_t* halves = to.values + blockIdx.x * columns;
  row.each(columns, [&](size_t i, unsigned count, const float (&v)[8]) {
    float changed[8];
    change(i, count, v, changed);
    auto* words = reinterpret_cast<uint32_t*>(halves + i / 32 * 32);
#pragma unroll
    for (unsigned pair = 0; pair < 4; pair++) {
      const unsigned column = pair / 2 * 4 + pair % 2;
      words[halfPlace(pair, i % 32 / 8) / 2] = packHalves(column < count ? changed[column] * factor : 0.0f,
                                                          column + 2 < count ? changed[column + 2] * factor : 0.0f);
    }
  });
  if (threadIdx.x == 0) to.factors[blockIdx.x] = exponent == 128 ? __uint_as_float(0x7fc00000u) : powerOfTwo(-shift);
}

}  // namespace spillway::cuda
