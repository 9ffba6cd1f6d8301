// The part of matrix products that is compiled for each instruction set. Matmul.h is the way in.
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "WeightType.h"
#include "panelLayout.h"

namespace spillway {

constexpr size_t kTileRows = 4;

// Integer sums start from the bits of the float 1.5 * 2^23: read as a float, such a sum is that number plus the sum,
// exactly (below 2^22). With n added to the exponent it is 2^n times as much, so that a scale that is a power of two
// costs nothing: subtracting 1.5 * 2^(23 + n) leaves the sum times 2^n, exactly.
constexpr int32_t kBiasBits = 0x4b400000;
constexpr float kBias = 12582912.0f;
constexpr int32_t kBiasOverPower = kBiasBits - 0x3f800000;  // between the bits of kBias * 2^n and those of 2^n

// A group (32 inputs) of four rows.
using TileValues = int8_t[kTileRows][32];

// One group (32 inputs) of activations of four consecutive rows, as 8-bit integers: x = factor * 2^n * value, with a
// factor for the row and the least n for the group with which no value is beyond 127. The factor, from 1 to 2, is that
// with which the row's largest group that is not refined uses all of -127..127: the groups below it lose half a bit on
// average, and a product needs one multiplication less a group (that by the group's scale, which is left to be done
// once for all groups of a row). A row with a value that is not finite, or is beyond kLargestRounded, has the factor
// NaN, so that every output of the row becomes NaN. Activations of a batch: tiles[row / 4][refinement][group], lane row
// % 4.
//
// A row's large groups, those whose magnitude is over kRefineOver times the mean of the row's groups, are refined: what
// rounding lost of them is a second tile, with refinement 1. A few channels of most models carry values many times the
// others', and their groups are where nearly all of the rounding error is. Which groups of a row are refined depends on
// the row alone; the other rows of such a tile have zeros there, which change no bit of theirs.
struct alignas(64) QuantisedTile {
  TileValues values;
  float bias[kTileRows];       // kBias * 2^n; its bits are where products with weights without a zero point start from
  float scaledSum[kTileRows];  // 2^n * sum, for weights with an offset
  int32_t start8[kTileRows];   // bits of bias - 8 * sum: where the products with weights of zero point 8 start from
  int32_t start16[kTileRows];
  int32_t start128[kTileRows];
  int16_t halfSums[2][kTileRows];  // of inputs 0-15, 16-31
  float factor[kTileRows];         // of the row: the same in all of its tiles
  int32_t next;                    // where the next tile to multiply with is, counted in tiles from this one: often 1
  uint32_t advance;                // 1: that is of the next group; 0: it is this group's refinement
  uint32_t unused[2];
};
static_assert(sizeof(QuantisedTile) == 256, "four cache lines");

constexpr float kRefineOver = 3.0f;
constexpr float kLargestRounded = 1e33f;  // kBias * 2^n is finite
constexpr size_t kTilesPerGroup = 2;      // the group and its refinement

// Activations of four consecutive rows for weights of one scale a row (Q8_R): x = scale * value, with one scale for all
// inputs of a row, so that a product is a sum of integers and one float step. The scale is that with which the row's
// largest group that is not beyond kDigitsOver times their mean uses all of -127..127. What is larger has more digits:
// value = v0 + 2^7 * v1 + 2^14 * v2, and of the higher ones only those groups are there that have them. Which digits
// other rows of a tile have changes no bit of a row, since all of it is integers.
struct alignas(64) EvenTile {
  float scale[kTileRows];
  int32_t start128[kTileRows];  // -128 * sum of the row's values: where products with weights of zero point 128 start
  uint32_t digits;              // how many EvenDigits there are
};
struct alignas(64) EvenGroup {
  TileValues values;
};
// A higher digit of a group, in order of groups.
struct alignas(64) EvenDigits {
  TileValues values;
  uint32_t group;
  uint32_t place;  // 1: counts 2^7; 2: 2^14
  uint32_t rows;   // bit r: that row of the tile has it; others' values are zeros
};
constexpr int kDigitBits = 7;
// Sums of values are at most so many times 32, and those of their products with weights are then integers of 32 bits: a
// row of larger sums has a larger scale.
constexpr float kMostEvenSum = 500000;
// A tile is followed by its groups, and they by its digits, of which a group has two at most.
static constexpr size_t evenTileBytes(size_t groups) {
  return sizeof(EvenTile) + groups * (sizeof(EvenGroup) + 2 * sizeof(EvenDigits));
}

// What activations are rounded to for multiplyQuantised, and how the rounded rows lie: some rows at a time, together,
// in order of columns.
// - Groups: 8 bits with a scale for each group of 32, four rows at a time: QuantisedTile [ceil(rows / 4)][2][columns /
//   32]; for quantised types
// - Rows: 8 bits with one scale a row, four rows at a time: an EvenTile each, for Q8_R where others have Groups
// - Bfloat16: sixteen rows at a time (at the end those that are left): [columns / 32][rows][32], the last columns
//   filled up with zeros; for all types but F32
enum class QuantisedInput : uint8_t { None, Groups, Rows, Bfloat16 };

static constexpr size_t rowsTogether(QuantisedInput form) { return form == QuantisedInput::Bfloat16 ? 16 : kTileRows; }
static constexpr size_t quantisedBytes(QuantisedInput form, size_t rows, size_t columns) {
  if (form == QuantisedInput::Bfloat16) return rows * ((columns + 31) / 32) * 64;
  const size_t tiles = (rows + kTileRows - 1) / kTileRows, groups = columns / kGroupInputs;
  return tiles *
         (form == QuantisedInput::Rows ? evenTileBytes(groups) : kTilesPerGroup * groups * sizeof(QuantisedTile));
}
// What a type is multiplied with on kernels of the form Groups or Bfloat16; None where that is floats.
static constexpr QuantisedInput quantisedFor(QuantisedInput kernels, WeightType type) {
  if (kernels == QuantisedInput::Bfloat16) return type == WeightType::F32 ? QuantisedInput::None : kernels;
  if (!isQuantised(type)) return QuantisedInput::None;
  return panelFormat(type).kind == ScaleKind::Row ? QuantisedInput::Rows : QuantisedInput::Groups;
}

constexpr size_t kMatmulBlockRows = 256;
// Rows that multiplyQuantised takes at most.
static constexpr size_t mostQuantised(QuantisedInput form) {
  return form == QuantisedInput::Bfloat16 ? 64 : kMatmulBlockRows;
}

// Some panels of one matrix times some rows.
struct MatmulBlock {
  WeightType type;
  size_t inputs;
  const uint8_t* panels;
  size_t panelBytes;
  size_t outputs;            // from the first panel on; the last panel may be used in part
  size_t rows;               // at most kMatmulBlockRows, and mostQuantised() where quantised
  const uint8_t* quantised;  // of the first row, which is the first of rowsTogether()
  const float* values;       // [rows, valueStride]
  size_t valueStride;
  const float* bias;  // [outputs] or null
  float* output;      // [rows, outputStride]; products of bfloat16 write whole panels
  size_t outputStride;
  size_t mostRowsInPlace;  // MatmulKernels::mostRowsInPlace
  const uint8_t*
      next;  // what the same thread most likely multiplies with after these panels, to be asked for in time; or null
};

// Panels that a product of quantised types takes at a time at most: blocks are best made of whole multiples. With 32
// registers three panels by four rows balance loads and products.
constexpr size_t kQuantisedPanelsPerTile = 3;
// Of Q8_R: without float sums beside the integers registers hold twice as many.
constexpr size_t kEvenPanelsPerTile = 6;

// What a kernel needs to put unpacked weights and sums into; 64-byte aligned.
constexpr size_t kMatmulWorkspaceBytes = 64 * 1024;
// Inputs that multiplyWords takes at a time, and what it needs to put them into, as integers: rows, two panels, and a
// panel's sums.
constexpr size_t kWordInputs = 512;
constexpr size_t kWordWorkspaceBytes = (kMatmulBlockRows + 2 * kPanelOutputs) * kWordInputs * sizeof(int16_t) +
                                       kMatmulBlockRows * (2 + kPanelOutputs) * sizeof(float);

struct MatmulKernels {
  QuantisedInput quantised;  // Groups or Bfloat16: see quantisedFor()
  // Up to how many rows of a block weights are multiplied as they lie (matmulIsa.h, inPlace): those of four bits are
  // unpacked for each tile of rows anew, in registers, instead of once for all rows, those of eight are not copied
  // first. Of no consequence for results.
  size_t mostRowsInPlace;
  // Rounds rows that lie together: up to rowsTogether(). Groups: columns is a multiple of 32; a group below 1e-30 in
  // magnitude becomes zeros; lanes of absent rows are left as they are, for no product reads them.
  void (*quantiseRows)(const float* values, size_t stride, size_t rows, size_t columns, uint8_t* to);
  // The same to the form Rows; null on kernels of the form Bfloat16.
  void (*quantiseEvenly)(const float* values, size_t stride, size_t rows, size_t columns, uint8_t* to);
  // Rounded activations times a type that takes them. Groups: for an output, from its bias (or 0) on, in order of
  // groups, all operations fused or rounded as written:
  //   sum = Σ value * q - zero * Σ value                          (exact, int32; once for each scale of the group)
  //   total = fma(2^n * sum, weightScale, total)                  (once for each scale of the group)
  //   total = fma(weightOffset, scaledSum, total)                 (where the type has offsets; once for each)
  // and the same for the group's refinement.
  // Rows: fma((Σ value * q - zero * Σ value) * scale, weightScale, bias or 0), the sum over all inputs being exact.
  // Bfloat16: weights are rounded to bfloat16 too (unpackTile.h); from the bias on, in order of inputs, 32 at a time as
  // the processor's tdpbf16ps adds up their products in float32. Denormal numbers count as zeros.
  void (*multiplyQuantised)(const MatmulBlock& block, uint8_t* workspace);
  // Float activations times any type: total = fma(weight, value, total) from the bias (or 0) on, in order of inputs.
  void (*multiplyFloat)(const MatmulBlock& block, uint8_t* workspace);
  // Float activations times float types (Precision::Words), both rounded to integers: of a row the largest is 8191, of
  // an output's weights 2047. With kWordWorkspaceBytes:
  //   total = total + Σ value * weight       (exact, int32; once for each 128 inputs, in order, from 0 on)
  //   fma(total * scale, weightScale, bias or 0)
  // NaN where a number of either is not finite or beyond kLargestRounded.
  void (*multiplyWords)(const MatmulBlock& block, uint8_t* workspace);
};

}  // namespace spillway
