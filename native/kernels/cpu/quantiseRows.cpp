#include "dot.h"
#include "matmulIsa.h"

namespace spillway::SPILLWAY_ISA {
namespace {

constexpr float kSmallest = 1e-30f;
constexpr int32_t kOneBits = 0x3f800000, kExponentMask = 0x7f800000, kMantissaMask = 0x007fffff;

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

int32_t bitsOf(float x) {
  int32_t bits;
  __builtin_memcpy(&bits, &x, sizeof bits);
  return bits;
}
float floatOf(int32_t bits) {
  float x;
  __builtin_memcpy(&x, &bits, sizeof x);
  return x;
}

// What a row's groups are rounded with: its factor, from 1 to 2, times powers of two.
struct RowScale {
  float factor, inverse;
  int32_t mantissa;  // of the factor
};

// The factor with which a group of this largest magnitude uses all of -127..127.
RowScale rowScale(float largest) {
  if (!(largest >= kSmallest)) return {1.0f, 1.0f, 0};
  const int32_t mantissa = bitsOf(largest * (1.0f / 127.0f)) & kMantissaMask;
  const float factor = floatOf(kOneBits | mantissa);
  return {factor, 1.0f / factor, mantissa};
}

// One row's part of a group's tile, with the scale factor * 2^n; `powerBits`: those of 2^n as a float.
void storeValues(QuantisedTile& tile, size_t lane, const RowScale& row, int32_t powerBits, i32x16 first, i32x16 second) {
  int32_t sums[2];
  storeInt8(tile.values[lane], first, second, sums);
  tile.halfSums[0][lane] = static_cast<int16_t>(sums[0]);
  tile.halfSums[1][lane] = static_cast<int16_t>(sums[1]);
  tile.bias[lane] = floatOf(powerBits + (kBiasBits - kOneBits));
  tile.factor[lane] = row.factor;
}

void storeZeros(QuantisedTile& tile, size_t lane, const RowScale& row) { storeValues(tile, lane, row, kOneBits, set1Int(0), set1Int(0)); }

// Rounds 32 values of known largest magnitude. Where `lost` is not null it gets what the rounding lost of them.
void storeRounded(f32x16 first, f32x16 second, float largest, const RowScale& row, QuantisedTile& tile, size_t lane, f32x16* lost) {
  if (!(largest >= kSmallest && largest <= kLargestRounded)) {
    storeZeros(tile, lane, row);
    if (lost != nullptr) lost[0] = lost[1] = zero();
    return;
  }
  // The least power of two that makes the factor no smaller than largest / 127.
  const int32_t powerBits = (bitsOf(largest * (1.0f / 127.0f)) - row.mantissa + kMantissaMask) & kExponentMask;
  const f32x16 inverse = set1(row.inverse * floatOf(2 * kOneBits - powerBits));
  const f32x16 firstRounded = biased(first, inverse), secondRounded = biased(second, inverse);
  storeValues(tile, lane, row, powerBits, integers(firstRounded), integers(secondRounded));
  if (lost == nullptr) return;
  const f32x16 scale = set1(row.factor * floatOf(powerBits));
  lost[0] = fnma(sub(firstRounded, set1(kBias)), scale, first);
  lost[1] = fnma(sub(secondRounded, set1(kBias)), scale, second);
}

// What follows from the sums. A loop a field: the lanes of a field are computed and stored together. Not right after the sums: a processor waits long for
// what was stored in smaller pieces just before.
template <size_t R>
void storeStarts(QuantisedTile& tile) {
  int32_t sum[R], biasBits[R];
  for (size_t lane = 0; lane < R; lane++) sum[lane] = tile.halfSums[0][lane] + tile.halfSums[1][lane];
  for (size_t lane = 0; lane < R; lane++) biasBits[lane] = bitsOf(tile.bias[lane]);
  for (size_t lane = 0; lane < R; lane++) tile.scaledSum[lane] = floatOf(biasBits[lane] - (kBiasBits - kOneBits)) * static_cast<float>(sum[lane]);
  for (size_t lane = 0; lane < R; lane++) tile.start8[lane] = biasBits[lane] - 8 * sum[lane];
  for (size_t lane = 0; lane < R; lane++) tile.start16[lane] = biasBits[lane] - 16 * sum[lane];
  for (size_t lane = 0; lane < R; lane++) tile.start128[lane] = biasBits[lane] - 128 * sum[lane];
}

// One group of R rows. Loops over lanes are unrolled, so that the lanes' numbers stay in registers.
// `largest`: the group's magnitudes; `over`: what they are beyond where they are refined.
template <size_t R>
void quantiseGroup(const float* values, size_t stride, const float largest[R], const float over[R], const RowScale scales[R], QuantisedTile& tile, QuantisedTile& refinement) {
  bool refined = false;
  SPILLWAY_UNROLL(4)
  for (size_t lane = 0; lane < R; lane++) refined |= largest[lane] > over[lane];
  tile.next = refined ? static_cast<int32_t>(&refinement - &tile) : 1;
  tile.advance = refined ? 0 : 1;
  if (!refined) {
    SPILLWAY_UNROLL(4)
    for (size_t lane = 0; lane < R; lane++) {
      const float* from = values + lane * stride;
      storeRounded(load(from), load(from + 16), largest[lane], scales[lane], tile, lane, nullptr);
    }
    return;
  }
  refinement.next = 1 - tile.next;
  refinement.advance = 1;
  for (size_t lane = 0; lane < R; lane++) {
    const float* from = values + lane * stride;
    f32x16 lost[2];
    storeRounded(load(from), load(from + 16), largest[lane], scales[lane], tile, lane, lost);
    if (largest[lane] > over[lane]) storeRounded(lost[0], lost[1], largestOf(lost[0], lost[1]), scales[lane], refinement, lane, nullptr);
    else storeZeros(refinement, lane, scales[lane]);
  }
}

template <size_t R>
void quantiseTile(const float* values, size_t stride, size_t columns, QuantisedTile* tiles) {
  const size_t groups = columns / kGroupInputs;
  // Until a group is rounded, its tile's biases hold the magnitudes.
  float over[R] = {}, most[R] = {}, reference[R] = {};
  for (size_t g = 0; g < groups; g++)
    SPILLWAY_UNROLL(4)
    for (size_t lane = 0; lane < R; lane++) {
      const float* from = values + lane * stride + g * kGroupInputs;
      const float largest = largestOf(load(from), load(from + 16));
      tiles[g].bias[lane] = largest;
      over[lane] += largest;
      most[lane] = largest > most[lane] ? largest : most[lane];
    }
  for (size_t lane = 0; lane < R; lane++) over[lane] *= kRefineOver / static_cast<float>(groups);
  for (size_t g = 0; g < groups; g++)
    for (size_t lane = 0; lane < R; lane++) {
      const float largest = tiles[g].bias[lane];
      reference[lane] = largest <= over[lane] && largest > reference[lane] ? largest : reference[lane];
    }
  RowScale scales[R];
  for (size_t lane = 0; lane < R; lane++) {
    scales[lane] = rowScale(reference[lane] >= kSmallest ? reference[lane] : most[lane]);
    if (!(most[lane] <= kLargestRounded)) scales[lane].factor = __builtin_nanf("");
  }
  for (size_t g = 0; g < groups; g++) {
    float largest[R];
    for (size_t lane = 0; lane < R; lane++) largest[lane] = tiles[g].bias[lane];
    quantiseGroup<R>(values + g * kGroupInputs, stride, largest, over, scales, tiles[g], tiles[groups + g]);
  }
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
