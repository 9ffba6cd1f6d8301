// One register tile of a product of 8-bit activations with quantised weights, for weights as they lie in panels and for
// unpacked ones. Included by sources that are compiled for each instruction set.
#pragma once
#include "dot.h"
#include "matmulIsa.h"

namespace spillway::SPILLWAY_ISA {

// What of a type of weights the arithmetic depends on. kZero: the weights have a zero point.
template <int Bits, int Halves, bool Zero, bool Offset>
struct Arithmetic {
  static constexpr int kBits = Bits;
  static constexpr int kHalves = Halves;
  static constexpr bool kZero = Zero;
  static constexpr bool kOffset = Offset;
};

// Which numbers of a tile sums start from, in bytes from its begin.
static constexpr size_t startsAt(int zero) {
  switch (zero) {
    case 8: return offsetof(QuantisedTile, start8);
    case 16: return offsetof(QuantisedTile, start16);
    case 128: return offsetof(QuantisedTile, start128);
    default: return offsetof(QuantisedTile, bias);
  }
}

// Where the sum of a group, or of a half of it, starts from. Types with two scales a group have the zero points 4
// and 32.
template <typename A>
static inline int32_t startOf(const QuantisedTile& tile, size_t starts, int half, int row) {
  int32_t start;
  __builtin_memcpy(&start, reinterpret_cast<const uint8_t*>(&tile) + starts + sizeof start * static_cast<size_t>(row),
                   sizeof start);
  if constexpr (A::kHalves == 2 && A::kZero)
    return start - (A::kBits == 3 ? 4 : 32) * tile.halfSums[half][row];  // `starts` is then where the bias is
  return start;
}

// 2^n * sum of a row's activations, for the offset: of the group, or of a half of it.
template <int Halves>
static inline float scaledSum(const QuantisedTile& tile, int row, int half) {
  if constexpr (Halves == 1) return tile.scaledSum[row];
  return floatFromBits(bitsOfFloat(tile.bias[row]) - static_cast<uint32_t>(kBiasOverPower)) *
         static_cast<float>(tile.halfSums[half][row]);
}

// One group. The float operations and their order are those that MatmulKernels.h promises.
template <typename A, int R, int P, typename Source>
static inline void multiplyGroup(const Source& source, size_t group, const QuantisedTile& tile, size_t starts,
                                 f32x16 (&total)[R][P]) {
  constexpr int kHalves = A::kHalves;
  SPILLWAY_UNROLL(2)
  for (int half = 0; half < kHalves; half++) {
    i32x16 sum[R][P];
    SPILLWAY_UNROLL(4)
    for (int r = 0; r < R; r++) SPILLWAY_UNROLL(4)
    for (int p = 0; p < P; p++) sum[r][p] = set1Int(startOf<A>(tile, starts, half, r));
    dot<A::kBits, R, P, 8 / kHalves>(source, group, 4 * half, tile.values, sum);
    SPILLWAY_UNROLL(4)
    for (int p = 0; p < P; p++) {
      const f32x16 scale = source.scale(group, p, half);
      SPILLWAY_UNROLL(4)
      for (int r = 0; r < R; r++)
        total[r][p] = fma(sub(asFloat(sum[r][p]), set1(tile.bias[r])), scale, total[r][p]);  // the subtraction is exact
    }
  }
  if constexpr (!A::kOffset) return;
  SPILLWAY_UNROLL(2)
  for (int half = 0; half < kHalves; half++) SPILLWAY_UNROLL(4)
  for (int p = 0; p < P; p++) {
    const f32x16 offset = source.offset(group, p, half);
    SPILLWAY_UNROLL(4)
    for (int r = 0; r < R; r++) total[r][p] = fma(offset, set1(scaledSum<kHalves>(tile, r, half)), total[r][p]);
  }
}

// Adds `groups` groups to the accumulators of R rows from `row` on, the first of `tile`.
template <typename A, int R, int P, typename Source>
static inline void multiplyTile(const Source& source, size_t groups, const QuantisedTile* tile, size_t starts,
                                Ends ends, const Accumulators& accumulators, size_t row) {
  const QuantisedTile& begin = *tile;
  f32x16 total[R][P];
  float* at = accumulators.at + row * accumulators.stride;
  SPILLWAY_UNROLL(4)
  for (int p = 0; p < P; p++) SPILLWAY_UNROLL(4)
  for (int r = 0; r < R; r++) {
    if (ends.first)
      total[r][p] = zero();
    else
      total[r][p] = load(at + static_cast<size_t>(r) * accumulators.stride + p * 16);
    __builtin_prefetch(at + static_cast<size_t>(r) * accumulators.stride + p * 16,
                       1);  // stored to much later; rows of a wide matrix are pages apart
  }
  for (size_t g = 0; g < groups;) {
    SPILLWAY_UNROLL(4)
    for (int p = 0; p < P; p++) source.prefetch(g, p);
    multiplyGroup<A, R, P>(source, g, *tile, starts, total);
    g += tile->advance;
    tile += tile->next;
  }
  SPILLWAY_UNROLL(4)
  for (int p = 0; p < P; p++) {
    const f32x16 bias = ends.last && accumulators.bias != nullptr ? load(accumulators.bias + p * 16) : zero();
    SPILLWAY_UNROLL(4)
    for (int r = 0; r < R; r++) {
      const f32x16 whole = ends.last ? fma(total[r][p], set1(begin.factor[r]), bias) : total[r][p];
      store(at + static_cast<size_t>(r) * accumulators.stride + p * 16, whole);
    }
  }
}

}  // namespace spillway::SPILLWAY_ISA
