#include "dot.h"
#include "matmulIsa.h"

namespace spillway::SPILLWAY_ISA {
namespace {

constexpr float kSmallest = 1e-30f;  // 127 / kSmallest is finite

// The largest magnitude of 32 values; infinity where one of them is not finite.
float largestOf(f32x16 first, f32x16 second) {
  const f32x16 infinities = set1(__builtin_inff());
  // Comparisons with NaN are false: NaN turns into infinity here.
  const f32x16 firstSize = selectLess(abs(first), infinities, abs(first), infinities);
  const f32x16 secondSize = selectLess(abs(second), infinities, abs(second), infinities);
  return reduceMax(max(firstSize, secondSize));
}

// x * inverse to the nearest integer, ties to even.
i32x16 rounded(f32x16 x, f32x16 inverse) { return sub(asInt(add(mul(x, inverse), set1(kBias))), set1Int(kBiasBits)); }

// One group of R rows. Loops over lanes are unrolled, so that the lanes' numbers stay in registers.
template <size_t R>
void quantiseGroup(const float* values, size_t stride, QuantisedTile& tile) {
  float largest[R], inverse[R];
  int32_t sums[R][2];
  SPILLWAY_UNROLL(4)
  for (size_t lane = 0; lane < R; lane++) largest[lane] = largestOf(load(values + lane * stride), load(values + lane * stride + 16));
  SPILLWAY_UNROLL(4)
  for (size_t lane = 0; lane < R; lane++) inverse[lane] = 127.0f / largest[lane];
  SPILLWAY_UNROLL(4)
  for (size_t lane = 0; lane < R; lane++) {
    const float* from = values + lane * stride;
    tile.scale[lane] = largest[lane] * (1.0f / 127.0f);
    if (largest[lane] >= kSmallest && largest[lane] < __builtin_inff()) {
      storeInt8(tile.values[lane], rounded(load(from), set1(inverse[lane])), rounded(load(from + 16), set1(inverse[lane])), sums[lane]);
    } else {
      storeInt8(tile.values[lane], set1Int(0), set1Int(0), sums[lane]);
      tile.scale[lane] = largest[lane] < kSmallest ? 0.0f : __builtin_nanf("");
    }
  }
  SPILLWAY_UNROLL(4)
  for (size_t lane = 0; lane < R; lane++) {
    const int32_t sum = sums[lane][0] + sums[lane][1];
    tile.scaledSum[lane] = tile.scale[lane] * static_cast<float>(sum);
    tile.start8[lane] = kBiasBits - 8 * sum;
    tile.start16[lane] = kBiasBits - 16 * sum;
    tile.start128[lane] = kBiasBits - 128 * sum;
    tile.halfStart32[0][lane] = kBiasBits - 32 * sums[lane][0];
    tile.halfStart32[1][lane] = kBiasBits - 32 * sums[lane][1];
  }
}

template <size_t R>
void quantiseTile(const float* values, size_t stride, size_t columns, QuantisedTile* tiles) {
  for (size_t k = 0; k < columns; k += kGroupInputs) quantiseGroup<R>(values + k, stride, tiles[k / kGroupInputs]);
}

}  // namespace

void quantiseRows(const float* values, size_t stride, size_t rows, size_t columns, QuantisedTile* tiles) {
  switch (rows) {
    case 1: return quantiseTile<1>(values, stride, columns, tiles);
    case 2: return quantiseTile<2>(values, stride, columns, tiles);
    case 3: return quantiseTile<3>(values, stride, columns, tiles);
    default: return quantiseTile<4>(values, stride, columns, tiles);
  }
}

}  // namespace spillway::SPILLWAY_ISA
