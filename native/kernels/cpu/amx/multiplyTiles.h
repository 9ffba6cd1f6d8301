// Products of rows in bfloat16 with weights of one type on AMX. Included by the files of this folder that divide the types among them.
//
// One and two rows go without tiles (multiplyFused.h). Up to 64 rows are multiplied with one panel at a time, weights being unpacked a little ahead: the processor then does both at once. More rows go 32 at a time
// through two panels at a time. The first 32 unpack the weights as they go, into a buffer from which the others take them; inputs are cut into blocks, so that
// the buffer and some rows' inputs stay in the nearest cache, and totals wait in the output meanwhile. An element's products are added up in order of inputs,
// 32 at a time in the processor's own order, whatever the rows, panels and blocks.
#pragma once
#include "../MatmulKernels.h"
#include "multiplyFused.h"
#include "tiles.h"
#include "unpackTile.h"

namespace spillway::SPILLWAY_ISA {

constexpr size_t kAmxBlockTiles = 9;  // of inputs
constexpr size_t kAmxBufferBytes = 2 * kAmxBlockTiles * kAmxTileBytes;
constexpr size_t kAmxPartialBytes = kMatmulBlockRows * kPanelOutputs * sizeof(float);  // totals of a panel that is used in part
constexpr size_t kAmxBiasBytes = kPanelOutputs * sizeof(float);
static_assert(kAmxBufferBytes + kAmxPartialBytes + kAmxBiasBytes <= kMatmulWorkspaceBytes, "the workspace is large enough");

// Where the totals of some rows and panels are: in the output, or, for a panel that is used in part, in the workspace.
struct AmxTotals {
  float* at;
  size_t stride;
  const float* bias;  // of the first panel, or null
};

// Tiles of inputs of a block, and the weights' buffer for them: tile k at place k & places.
struct AmxSpan {
  size_t begin, end;
  uint8_t* buffer;
  size_t places;
};

// Tiles of rows, one after another in memory: tile m begins m * tileBytes further on, and its rows of inputs 32 k are 1024 k further, or 64 * rows * k.
struct AmxRows {
  const uint8_t* at;
  size_t tileBytes;
  size_t lastBytes;  // of one k of the last tile
  template <int M>
  const uint8_t* rows(int m, size_t k) const {
    return at + static_cast<size_t>(m) * tileBytes + k * (m == M - 1 ? lastBytes : kAmxTileBytes);
  }
};

// Calls step<register>(rows, panel) for the totals of M tiles of rows and P panels. (A register's number has to be in the instruction.)
#define SPILLWAY_FOR_TOTALS(STEP)                            \
  STEP(0, 0, 0);                                             \
  if constexpr (P == 2) STEP(1, 0, 1);                       \
  if constexpr (P == 2 && M > 1) STEP(2, 1, 0);              \
  if constexpr (P == 2 && M > 1) STEP(3, 1, 1);              \
  if constexpr (P == 1 && M > 1) STEP(1, 1, 0);              \
  if constexpr (P == 1 && M > 2) STEP(2, 2, 0);              \
  if constexpr (P == 1 && M > 3) STEP(3, 3, 0)

template <int M, int P>
static inline void loadTotals(const AmxTotals& totals, bool first) {
  static_assert(P == 1 ? M <= 4 : M <= 2, "four registers");
  const size_t stride = totals.stride * sizeof(float);
#define SPILLWAY_LOAD(tile, m, p) SPILLWAY_TILE_LOAD(tile, totals.at + m * kAmxRows * totals.stride + p * kPanelOutputs, stride)
#define SPILLWAY_BIAS(tile, m, p) SPILLWAY_TILE_LOAD(tile, totals.bias + p * kPanelOutputs, 0)  // a stride of 0 reads the same row again and again
#define SPILLWAY_ZERO(tile, m, p) SPILLWAY_TILE_ZERO(tile)
  if (!first) {
    SPILLWAY_FOR_TOTALS(SPILLWAY_LOAD);
  } else if (totals.bias != nullptr) {
    SPILLWAY_FOR_TOTALS(SPILLWAY_BIAS);
  } else {
    SPILLWAY_FOR_TOTALS(SPILLWAY_ZERO);
  }
#undef SPILLWAY_LOAD
#undef SPILLWAY_BIAS
#undef SPILLWAY_ZERO
}

template <int M, int P>
static inline void storeTotals(const AmxTotals& totals) {
  const size_t stride = totals.stride * sizeof(float);
#define SPILLWAY_STORE(tile, m, p) SPILLWAY_TILE_STORE(tile, totals.at + m * kAmxRows * totals.stride + p * kPanelOutputs, stride)
  SPILLWAY_FOR_TOTALS(SPILLWAY_STORE);
#undef SPILLWAY_STORE
}

// 32 inputs of M tiles of rows with P panels.
template <int M, int P>
static inline void multiplyTile(const AmxRows& rows, size_t k, const uint8_t* weights) {
  SPILLWAY_TILE_LOAD(6, weights, kAmxRowBytes);
  SPILLWAY_TILE_LOAD(4, rows.rows<M>(0, k), kAmxRowBytes);
  SPILLWAY_TILE_MULTIPLY(0, 4, 6);
  if constexpr (P == 2) {
    SPILLWAY_TILE_LOAD(7, weights + kAmxTileBytes, kAmxRowBytes);
    SPILLWAY_TILE_MULTIPLY(1, 4, 7);
  }
  if constexpr (M > 1) {
    SPILLWAY_TILE_LOAD(5, rows.rows<M>(1, k), kAmxRowBytes);
    if constexpr (P == 1) SPILLWAY_TILE_MULTIPLY(1, 5, 6);
    if constexpr (P == 2) {
      SPILLWAY_TILE_MULTIPLY(2, 5, 6);
      SPILLWAY_TILE_MULTIPLY(3, 5, 7);
    }
  }
  if constexpr (M == 3) {
    SPILLWAY_TILE_LOAD(7, rows.rows<M>(2, k), kAmxRowBytes);
    SPILLWAY_TILE_MULTIPLY(2, 7, 6);
  }
  if constexpr (M == 4) {
    SPILLWAY_TILE_LOAD(4, rows.rows<M>(2, k), kAmxRowBytes);
    SPILLWAY_TILE_MULTIPLY(2, 4, 6);
    SPILLWAY_TILE_LOAD(7, rows.rows<M>(3, k), kAmxRowBytes);
    SPILLWAY_TILE_MULTIPLY(3, 7, 6);
  }
}

// With weights that are in the buffer.
template <int M, int P>
static void multiplyUnpacked(const AmxRows& rows, const AmxSpan& span, const AmxTotals& totals, bool first) {
  loadTotals<M, P>(totals, first);
  for (size_t k = span.begin; k < span.end; k++) multiplyTile<M, P>(rows, k, span.buffer + (k - span.begin) * P * kAmxTileBytes);
  storeTotals<M, P>(totals);
}

// Unpacks the weights meanwhile, two tiles ahead: a tile cannot be loaded before the stores to it have left the processor.
template <int M, int P, typename Unpacker>
static void multiplyUnpacking(const Unpacker& unpacker, const uint8_t* panel, size_t panelBytes, const AmxRows& rows, const AmxSpan& span, const AmxTotals& totals, bool first) {
  constexpr size_t kAhead = 2;
  const auto placeOf = [&](size_t k) { return span.buffer + ((k - span.begin) & span.places) * P * kAmxTileBytes; };
  loadTotals<M, P>(totals, first);
  for (size_t k = span.begin; k < span.end + kAhead; k++) {
    if (k >= span.begin + kAhead) multiplyTile<M, P>(rows, k - kAhead, placeOf(k - kAhead));
    if (k < span.end)
      for (size_t p = 0; p < P; p++) unpacker.unpack(panel + p * panelBytes, P * panelBytes, k, placeOf(k) + p * kAmxTileBytes);
  }
  storeTotals<M, P>(totals);
}

static inline size_t tilesOf(size_t inputs) { return (inputs + kAmxInputs - 1) / kAmxInputs; }

// Up to 64 rows, one panel: totals stay in registers over all inputs.
template <typename Unpacker>
static void multiplyFew(const Unpacker& unpacker, const MatmulBlock& block, size_t panel, uint8_t* buffer, const AmxTotals& totals, TileShape& shape) {
  const size_t inputTiles = tilesOf(block.inputs), rowTiles = (block.rows + kAmxRows - 1) / kAmxRows, last = block.rows - (rowTiles - 1) * kAmxRows;
  const AmxRows rows{block.rounded, inputTiles * kAmxTileBytes, last * kAmxRowBytes};
  const AmxSpan span{0, inputTiles, buffer, 3};
  const uint8_t* panels = block.panels + panel * block.panelBytes;
  shape.set(rowTiles, 1, last);
  switch (rowTiles) {
    case 1: return multiplyUnpacking<1, 1>(unpacker, panels, block.panelBytes, rows, span, totals, true);
    case 2: return multiplyUnpacking<2, 1>(unpacker, panels, block.panelBytes, rows, span, totals, true);
    case 3: return multiplyUnpacking<3, 1>(unpacker, panels, block.panelBytes, rows, span, totals, true);
    default: return multiplyUnpacking<4, 1>(unpacker, panels, block.panelBytes, rows, span, totals, true);
  }
}

// P panels for all rows of the block and the inputs of `span`, 32 rows at a time; the first unpack the weights for the others.
template <int P, typename Unpacker>
static void multiplyMany(const Unpacker& unpacker, const MatmulBlock& block, size_t panel, const AmxSpan& span, bool first, AmxTotals totals, TileShape& shape) {
  const uint8_t* panels = block.panels + panel * block.panelBytes;
  const size_t tileBytes = tilesOf(block.inputs) * kAmxTileBytes;
  for (size_t row = 0; row < block.rows; row += 2 * kAmxRows) {
    const size_t left = block.rows - row < 2 * kAmxRows ? block.rows - row : 2 * kAmxRows;
    const size_t tiles = left > kAmxRows ? 2 : 1, last = left - (tiles - 1) * kAmxRows;
    const AmxRows rows{block.rounded + row / kAmxRows * tileBytes, tileBytes, last * kAmxRowBytes};
    shape.set(tiles, P, last);
    if (row == 0) multiplyUnpacking<2, P>(unpacker, panels, block.panelBytes, rows, span, totals, first);
    else if (tiles == 2) multiplyUnpacked<2, P>(rows, span, totals, first);
    else multiplyUnpacked<1, P>(rows, span, totals, first);
    totals.at += 2 * kAmxRows * totals.stride;
  }
}

template <typename Unpacker>
static void multiplyBlock(const MatmulBlock& block, uint8_t* workspace) {
  const Unpacker unpacker(block.inputs);
  if (takesFused(block.rows, block.inputs)) return multiplyFused(unpacker, block, workspace);
  const size_t panels = block.outputs / kPanelOutputs, partial = block.outputs % kPanelOutputs;
  uint8_t* buffer = workspace;
  float* partialTotals = reinterpret_cast<float*>(workspace + kAmxBufferBytes);
  float* partialBias = reinterpret_cast<float*>(workspace + kAmxBufferBytes + kAmxPartialBytes);
  const float* bias = block.bias == nullptr ? nullptr : block.bias + panels * kPanelOutputs;
  store(partialBias, bias == nullptr ? zero() : loadPartial(bias, partial));
  const auto totalsAt = [&](size_t panel) {
    return AmxTotals{block.output + panel * kPanelOutputs, block.outputStride, block.bias == nullptr ? nullptr : block.bias + panel * kPanelOutputs};
  };
  const AmxTotals partialAt{partialTotals, kPanelOutputs, partialBias};
  {
    TileShape shape;
    if (block.rows <= 4 * kAmxRows) {
      for (size_t panel = 0; panel < panels; panel++) multiplyFew(unpacker, block, panel, buffer, totalsAt(panel), shape);
      if (partial > 0) multiplyFew(unpacker, block, panels, buffer, partialAt, shape);
    } else {
      const size_t tiles = tilesOf(block.inputs), spans = (tiles + kAmxBlockTiles - 1) / kAmxBlockTiles;
      for (size_t s = 0; s < spans; s++) {
        const AmxSpan span{tiles * s / spans, tiles * (s + 1) / spans, buffer, SIZE_MAX};
        size_t panel = 0;
        for (; panel + 2 <= panels; panel += 2) multiplyMany<2>(unpacker, block, panel, span, s == 0, totalsAt(panel), shape);
        if (panel < panels) multiplyMany<1>(unpacker, block, panel, span, s == 0, totalsAt(panel), shape);
        if (partial > 0) multiplyMany<1>(unpacker, block, panels, span, s == 0, partialAt, shape);
      }
    }
  }
  if (partial > 0)
    for (size_t row = 0; row < block.rows; row++)
      storePartial(block.output + row * block.outputStride + panels * kPanelOutputs, load(partialTotals + row * kPanelOutputs), partial);
}

}  // namespace spillway::SPILLWAY_ISA
