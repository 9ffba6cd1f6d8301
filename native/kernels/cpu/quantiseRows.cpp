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

// x * inverse to the nearest integer, ties to even, still with the bits of kBias.
f32x16 biased(f32x16 x, f32x16 inverse) { return add(mul(x, inverse), set1(kBias)); }
i32x16 integers(f32x16 biasedValues) { return sub(asInt(biasedValues), set1Int(kBiasBits)); }

// One row's part of a group's tile. Sums go where storeStarts() expects them.
void storeValues(QuantisedTile& tile, size_t lane, i32x16 first, i32x16 second) {
  int32_t sums[2];
  storeInt8(tile.values[lane], first, second, sums);
  tile.halfStart32[0][lane] = sums[0];
  tile.halfStart32[1][lane] = sums[1];
}

// Zeros, where `scale` says how they are to be taken.
void storeZeros(QuantisedTile& tile, size_t lane, float scale) {
  storeValues(tile, lane, set1Int(0), set1Int(0));
  tile.scale[lane] = scale;
}

// Rounds 32 values of known largest magnitude. Where `lost` is not null it gets what the rounding lost of them.
void storeRounded(f32x16 first, f32x16 second, float largest, QuantisedTile& tile, size_t lane, f32x16* lost) {
  if (!(largest >= kSmallest && largest < __builtin_inff())) {
    storeZeros(tile, lane, largest < kSmallest ? 0.0f : __builtin_nanf(""));
    if (lost != nullptr) lost[0] = lost[1] = zero();
    return;
  }
  const f32x16 inverse = set1(127.0f / largest);
  const f32x16 firstRounded = biased(first, inverse), secondRounded = biased(second, inverse);
  tile.scale[lane] = largest * (1.0f / 127.0f);
  storeValues(tile, lane, integers(firstRounded), integers(secondRounded));
  if (lost == nullptr) return;
  const f32x16 scale = set1(tile.scale[lane]);
  lost[0] = fnma(sub(firstRounded, set1(kBias)), scale, first);
  lost[1] = fnma(sub(secondRounded, set1(kBias)), scale, second);
}

// What dot products start from, made of the sums of either half, which stand where those of halves will. A loop a field: the lanes of a field are computed
// and stored together. Not right after the sums: a processor waits long for what was stored in smaller pieces just before.
template <size_t R>
void storeStarts(QuantisedTile& tile) {
  int32_t halves[2][R], whole[R];
  for (size_t lane = 0; lane < R; lane++) halves[0][lane] = tile.halfStart32[0][lane];
  for (size_t lane = 0; lane < R; lane++) halves[1][lane] = tile.halfStart32[1][lane];
  for (size_t lane = 0; lane < R; lane++) whole[lane] = halves[0][lane] + halves[1][lane];
  for (size_t lane = 0; lane < R; lane++) tile.scaledSum[lane] = tile.scale[lane] * static_cast<float>(whole[lane]);
  for (size_t lane = 0; lane < R; lane++) tile.start8[lane] = kBiasBits - 8 * whole[lane];
  for (size_t lane = 0; lane < R; lane++) tile.start16[lane] = kBiasBits - 16 * whole[lane];
  for (size_t lane = 0; lane < R; lane++) tile.start128[lane] = kBiasBits - 128 * whole[lane];
  for (size_t lane = 0; lane < R; lane++) tile.halfStart32[0][lane] = kBiasBits - 32 * halves[0][lane];
  for (size_t lane = 0; lane < R; lane++) tile.halfStart32[1][lane] = kBiasBits - 32 * halves[1][lane];
}

// One group of R rows. Loops over lanes are unrolled, so that the lanes' numbers stay in registers.
// tile.scale holds the group's largest magnitudes; `over`: what they are beyond where they are refined.
template <size_t R>
void quantiseGroup(const float* values, size_t stride, const float over[R], QuantisedTile& tile, QuantisedTile& refinement) {
  bool refined = false;
  SPILLWAY_UNROLL(4)
  for (size_t lane = 0; lane < R; lane++) refined |= tile.scale[lane] > over[lane];
  tile.next = refined ? static_cast<int32_t>(&refinement - &tile) : 1;
  tile.advance = refined ? 0 : 1;
  if (!refined) {
    SPILLWAY_UNROLL(4)
    for (size_t lane = 0; lane < R; lane++) {
      const float* from = values + lane * stride;
      storeRounded(load(from), load(from + 16), tile.scale[lane], tile, lane, nullptr);
    }
    return;
  }
  refinement.next = 1 - tile.next;
  refinement.advance = 1;
  for (size_t lane = 0; lane < R; lane++) {
    const float* from = values + lane * stride;
    const bool refine = tile.scale[lane] > over[lane];
    f32x16 lost[2];
    storeRounded(load(from), load(from + 16), tile.scale[lane], tile, lane, lost);
    if (refine) storeRounded(lost[0], lost[1], largestOf(lost[0], lost[1]), refinement, lane, nullptr);
    else storeZeros(refinement, lane, 0.0f);
  }
}

template <size_t R>
void quantiseTile(const float* values, size_t stride, size_t columns, QuantisedTile* tiles) {
  const size_t groups = columns / kGroupInputs;
  float over[R] = {};
  for (size_t g = 0; g < groups; g++)
    SPILLWAY_UNROLL(4)
    for (size_t lane = 0; lane < R; lane++) {
      const float* from = values + lane * stride + g * kGroupInputs;
      const float largest = largestOf(load(from), load(from + 16));
      tiles[g].scale[lane] = largest;
      over[lane] += largest;
    }
  // In a row with an infinity nothing is over it.
  for (size_t lane = 0; lane < R; lane++) over[lane] *= kRefineOver / static_cast<float>(groups);
  for (size_t g = 0; g < groups; g++) quantiseGroup<R>(values + g * kGroupInputs, stride, over, tiles[g], tiles[groups + g]);
  for (size_t g = 0; g < groups; g++) {
    storeStarts<R>(tiles[g]);
    if (tiles[g].advance == 0) storeStarts<R>(tiles[groups + g]);
  }
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
