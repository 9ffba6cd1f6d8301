#include "dot.h"
#include "matmulIsa.h"
#include "roundGroups.h"

namespace spillway::SPILLWAY_ISA {
namespace {

// Numbers of a tile's rows. What is in those of absent rows does not matter.
typedef int16_t Int16s __attribute__((vector_size(sizeof(int16_t) * kTileRows)));
typedef int32_t Int32s __attribute__((vector_size(sizeof(int32_t) * kTileRows)));
typedef uint32_t Words __attribute__((vector_size(sizeof(uint32_t) * kTileRows)));  // modulo 2^32
typedef float Floats __attribute__((vector_size(sizeof(float) * kTileRows)));

// What a row's groups are rounded with: its factor, from 1 to 2, times powers of two.
struct RowScale {
  float factor, inverse;
  uint32_t mantissa;  // of the factor
};

// The factor with which a group of this largest magnitude uses all of -127..127.
RowScale rowScale(float largest) {
  if (!(largest >= kSmallest)) return {1.0f, 1.0f, 0};
  const uint32_t mantissa = bitsOfFloat(largest * (1.0f / 127.0f)) & kMantissaMask;
  const float factor = floatFromBits(kOneBits | mantissa);
  return {factor, 1.0f / factor, mantissa};
}

// One row's part of a group's tile, with the scale factor * 2^n; `powerBits`: those of 2^n as a float.
void storeValues(QuantisedTile& tile, size_t lane, const RowScale& row, uint32_t powerBits, i32x16 first,
                 i32x16 second) {
  int32_t sums[2];
  storeInt8(tile.values[lane], first, second, sums);
  tile.halfSums[0][lane] = static_cast<int16_t>(sums[0]);
  tile.halfSums[1][lane] = static_cast<int16_t>(sums[1]);
  tile.bias[lane] = floatFromBits(powerBits + static_cast<uint32_t>(kBiasOverPower));
  tile.factor[lane] = row.factor;
}

void storeZeros(QuantisedTile& tile, size_t lane, const RowScale& row) {
  storeValues(tile, lane, row, kOneBits, set1Int(0), set1Int(0));
}

// Rounds 32 values of known largest magnitude. Where `lost` is not null it gets what the rounding lost of them.
inline __attribute__((always_inline)) void storeRounded(const float* values, float largest, const RowScale& row,
                                                        QuantisedTile& tile, size_t lane, float* lost) {
  if (!(largest >= kSmallest && largest <= kLargestRounded)) {
    storeZeros(tile, lane, row);
    if (lost != nullptr)
      for (size_t i = 0; i < kGroupInputs; i++) lost[i] = 0;
    return;
  }
  const f32x16 first = load(values), second = load(values + 16);
  // The least power of two that makes the factor no smaller than largest / 127.
  const uint32_t powerBits = (bitsOfFloat(largest * (1.0f / 127.0f)) - row.mantissa + kMantissaMask) & kExponentMask;
  const f32x16 inverse = set1(row.inverse * floatFromBits(2 * kOneBits - powerBits));
  const f32x16 firstRounded = biased(first, inverse), secondRounded = biased(second, inverse);
  storeValues(tile, lane, row, powerBits, integers(firstRounded), integers(secondRounded));
  if (lost == nullptr) return;
  const f32x16 scale = set1(row.factor * floatFromBits(powerBits));
  store(lost, fnma(sub(firstRounded, set1(kBias)), scale, first));
  store(lost + 16, fnma(sub(secondRounded, set1(kBias)), scale, second));
}

// What follows from the sums. Not right after they are stored: a processor waits long for what was stored in smaller
// pieces just before.
void storeStarts(QuantisedTile& tile) {
  Int16s halves[2];
  Words biasBits;
  __builtin_memcpy(halves, tile.halfSums, sizeof halves);
  __builtin_memcpy(&biasBits, tile.bias, sizeof biasBits);
  const Int32s sum = __builtin_convertvector(halves[0], Int32s) + __builtin_convertvector(halves[1], Int32s);
  const Words word = reinterpret_cast<Words>(sum), powerBits = biasBits - kBiasOverPower;
  const Words start8 = biasBits - 8 * word, start16 = biasBits - 16 * word, start128 = biasBits - 128 * word;
  Floats power;
  __builtin_memcpy(&power, &powerBits, sizeof power);
  const Floats scaledSum = power * __builtin_convertvector(sum, Floats);
  __builtin_memcpy(tile.scaledSum, &scaledSum, sizeof scaledSum);
  __builtin_memcpy(tile.start8, &start8, sizeof start8);
  __builtin_memcpy(tile.start16, &start16, sizeof start16);
  __builtin_memcpy(tile.start128, &start128, sizeof start128);
}

// A group of all rows of a tile, none of which is refined, or too small or too large to be rounded: as storeRounded()
// does, number for number.
void storePlain(const float* values, size_t stride, Floats largest, const RowScale (&rows)[kTileRows],
                QuantisedTile& tile) {
  Floats factor, inverse;
  Words mantissa;
  SPILLWAY_UNROLL(4)
  for (size_t lane = 0; lane < kTileRows; lane++) {
    factor[lane] = rows[lane].factor;
    inverse[lane] = rows[lane].inverse;
    mantissa[lane] = rows[lane].mantissa;
  }
  const Floats step = largest * (1.0f / 127.0f);
  const Words power = (reinterpret_cast<Words>(step) - mantissa + kMantissaMask) & kExponentMask;
  const Words inversePower = 2 * kOneBits - power, bias = power + static_cast<uint32_t>(kBiasOverPower);
  inverse *= reinterpret_cast<Floats>(inversePower);
  i32x16 first[kTileRows], second[kTileRows];
  SPILLWAY_UNROLL(4)
  for (size_t lane = 0; lane < kTileRows; lane++) {
    const f32x16 by = set1(inverse[lane]);
    first[lane] = integers(biased(load(values + lane * stride), by));
    second[lane] = integers(biased(load(values + lane * stride + 16), by));
  }
  storeRows(tile.values, first, second, tile.halfSums);
  __builtin_memcpy(tile.bias, &bias, sizeof bias);
  __builtin_memcpy(tile.factor, &factor, sizeof factor);
}

// One group of R rows. Loops over lanes are unrolled, so that the lanes' numbers stay in registers.
// `largest`: the group's magnitudes; `over`: what they are beyond where they are refined.
template <size_t R>
void quantiseGroup(const float* values, size_t stride, const float (&largest)[R], const float (&over)[R],
                   const RowScale (&scales)[R], QuantisedTile& tile, QuantisedTile& refinement) {
  if constexpr (R == kTileRows) {
    Floats most, magnitude;
    __builtin_memcpy(&most, over, sizeof most);
    __builtin_memcpy(&magnitude, largest, sizeof magnitude);
    // Lanes of ones where a row is otherwise; NaN is no magnitude.
    const Int32s otherwise = (magnitude > most) | (magnitude < kSmallest) | (magnitude > kLargestRounded);
    uint64_t halves[2];
    __builtin_memcpy(halves, &otherwise, sizeof halves);
    if ((halves[0] | halves[1]) == 0) {
      tile.next = tile.advance = 1;
      return storePlain(values, stride, magnitude, scales, tile);
    }
  }
  bool refined = false;
  SPILLWAY_UNROLL(4)
  for (size_t lane = 0; lane < R; lane++) refined |= largest[lane] > over[lane];
  tile.next = refined ? static_cast<int32_t>(&refinement - &tile) : 1;
  tile.advance = refined ? 0 : 1;
  if (!refined) {
    SPILLWAY_UNROLL(4)
    for (size_t lane = 0; lane < R; lane++)
      storeRounded(values + lane * stride, largest[lane], scales[lane], tile, lane, nullptr);
    return;
  }
  refinement.next = 1 - tile.next;
  refinement.advance = 1;
  for (size_t lane = 0; lane < R; lane++) {
    const float* from = values + lane * stride;
    float lost[kGroupInputs];
    storeRounded(from, largest[lane], scales[lane], tile, lane, lost);
    if (largest[lane] > over[lane])
      storeRounded(lost, largestOf(lost), scales[lane], refinement, lane, nullptr);
    else
      storeZeros(refinement, lane, scales[lane]);
  }
}

template <size_t R>
void quantiseTile(const float* values, size_t stride, size_t columns, QuantisedTile* tiles) {
  const size_t groups = columns / kGroupInputs;
  // Until a group is rounded, its tile's biases hold the magnitudes.
  float over[R] = {}, most[R] = {}, reference[R] = {};
  for (size_t g = 0; g < groups; g++) {
    float largest[R];
    largestOfEach<R>(values + g * kGroupInputs, stride, largest);
    for (size_t lane = 0; lane < R; lane++) tiles[g].bias[lane] = largest[lane];
    for (size_t lane = 0; lane < R; lane++) over[lane] += largest[lane];
    for (size_t lane = 0; lane < R; lane++) most[lane] = largest[lane] > most[lane] ? largest[lane] : most[lane];
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
    storeStarts(tiles[g]);
    if (tiles[g].advance == 0) storeStarts(tiles[groups + g]);
  }
}

}  // namespace

void quantiseRows(const float* values, size_t stride, size_t rows, size_t columns, uint8_t* to) {
  const auto tiles = reinterpret_cast<QuantisedTile*>(to);
  switch (rows) {
    case 1: return quantiseTile<1>(values, stride, columns, tiles);
    case 2: return quantiseTile<2>(values, stride, columns, tiles);
    case 3: return quantiseTile<3>(values, stride, columns, tiles);
    default: return quantiseTile<4>(values, stride, columns, tiles);
  }
}

}  // namespace spillway::SPILLWAY_ISA
