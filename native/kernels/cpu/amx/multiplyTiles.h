// Products of rows in bfloat16 with weights of one type on AMX. Included by the files of this folder that divide the
// types among them.
//
// One and two rows go without tiles (multiplyFused.h). Up to 64 rows meet one panel at a time. Weights are unpacked
// three tiles ahead, a quarter of a tile after each of the four products of another, so that the processor does both at
// once: products alone take as long. What it has to wait for is rows that come from further away than the nearest
// cache. So inputs are cut into spans, short enough for 64 rows' part of them to stay there while all panels pass by;
// accumulators wait in the output between spans. An element's products are added up in order of inputs, 32 at a time in
// the processor's own order, whatever the rows, panels and spans.
#pragma once
#include "../MatmulKernels.h"
#include "matmulAmx.h"
#include "multiplyFused.h"
#include "tiles.h"
#include "unpackTile.h"

namespace spillway::SPILLWAY_ISA {

constexpr size_t kAmxSpanTiles = 24;  // of rows, at most: 24 KiB, for the accumulators that leave, those that come and
                                      // the weights need the other half of the nearest cache
// Tiles: one cannot be loaded before the stores to it have left the processor, in order. Between two panels they stand
// after those of the accumulators, which have the last products to wait for: two tiles are not enough then.
constexpr size_t kAmxAhead = 3;
constexpr size_t kAmxPlaces = 4;          // for tiles of weights; more than kAmxAhead, and a power of two
constexpr size_t kAmxPrefetchPanels = 2;  // one is multiplied in less time than the furthest weights take to come
constexpr size_t kAmxBufferBytes = kAmxPlaces * kAmxTileBytes;
constexpr size_t kAmxBiasBytes = kPanelOutputs * sizeof(float);
static_assert(kAmxBufferBytes + kAmxBiasBytes <= kMatmulWorkspaceBytes, "the workspace is large enough");
static_assert(mostQuantised(QuantisedInput::Bfloat16) == 4 * kAmxRows, "four registers of accumulators");

// Tiles of rows, one after another in memory: tile m begins m * tileBytes further on, and its rows of inputs 32 k are
// 1024 k further, or 64 * rows * k.
struct AmxRows {
  const uint8_t* at;
  size_t tileBytes;
  size_t lastBytes;  // of one k of the last tile
  template <int M>
  const uint8_t* rows(int m, size_t k) const {
    return at + static_cast<size_t>(m) * tileBytes + k * (m == M - 1 ? lastBytes : kAmxTileBytes);
  }
};

// Calls step(register) for the accumulators of M tiles of rows. (A register's number has to be in the instruction.)
#define SPILLWAY_FOR_ACCUMULATORS(STEP) \
  STEP(0);                              \
  if constexpr (M > 1) STEP(1);         \
  if constexpr (M > 2) STEP(2);         \
  if constexpr (M > 3) STEP(3)

// first: from the bias, or from zero where it is null; otherwise from where storeAccumulators left them. `stride` in
// floats.
template <int M>
static inline void loadAccumulators(const float* accumulators, size_t stride, bool first, const float* bias) {
#define SPILLWAY_LOAD(m) SPILLWAY_TILE_LOAD(m, accumulators + m * kAmxRows * stride, stride * sizeof(float))
#define SPILLWAY_BIAS(m) SPILLWAY_TILE_LOAD(m, bias, 0)  // a stride of 0 reads the same row again and again
#define SPILLWAY_ZERO(m) SPILLWAY_TILE_ZERO(m)
  if (!first) {
    SPILLWAY_FOR_ACCUMULATORS(SPILLWAY_LOAD);
  } else if (bias != nullptr) {
    SPILLWAY_FOR_ACCUMULATORS(SPILLWAY_BIAS);
  } else {
    SPILLWAY_FOR_ACCUMULATORS(SPILLWAY_ZERO);
  }
#undef SPILLWAY_LOAD
#undef SPILLWAY_BIAS
#undef SPILLWAY_ZERO
}

template <int M>
static inline void storeAccumulators(float* accumulators, size_t stride) {
#define SPILLWAY_STORE(m) SPILLWAY_TILE_STORE(m, accumulators + m * kAmxRows * stride, stride * sizeof(float))
  SPILLWAY_FOR_ACCUMULATORS(SPILLWAY_STORE);
#undef SPILLWAY_STORE
}

// 32 inputs of M tiles of rows with one panel; beside it the four quarters of a tile are unpacked.
template <int M, typename Unpacker>
static inline void multiplyTile(const AmxRows& rows, size_t k, const uint8_t* weights, const Unpacker& unpacker,
                                const typename Unpacker::Group& group, uint8_t* tile) {
  SPILLWAY_TILE_LOAD(6, weights, kAmxRowBytes);
  SPILLWAY_TILE_LOAD(4, rows.rows<M>(0, k), kAmxRowBytes);
  SPILLWAY_TILE_MULTIPLY(0, 4, 6);
  unpacker.template quarter<0>(group, tile);
  if constexpr (M > 1) {
    SPILLWAY_TILE_LOAD(5, rows.rows<M>(1, k), kAmxRowBytes);
    SPILLWAY_TILE_MULTIPLY(1, 5, 6);
  }
  unpacker.template quarter<1>(group, tile);
  if constexpr (M == 3) {
    SPILLWAY_TILE_LOAD(7, rows.rows<M>(2, k), kAmxRowBytes);
    SPILLWAY_TILE_MULTIPLY(2, 7, 6);
  }
  if constexpr (M == 4) {
    SPILLWAY_TILE_LOAD(4, rows.rows<M>(2, k), kAmxRowBytes);
    SPILLWAY_TILE_MULTIPLY(2, 4, 6);
  }
  unpacker.template quarter<2>(group, tile);
  if constexpr (M == 4) {
    SPILLWAY_TILE_LOAD(7, rows.rows<M>(3, k), kAmxRowBytes);
    SPILLWAY_TILE_MULTIPLY(3, 7, 6);
  }
  unpacker.template quarter<3>(group, tile);
}

static inline size_t tilesOf(size_t inputs) { return (inputs + kAmxInputs - 1) / kAmxInputs; }

// Tiles of weights in the order in which they are used: the span's of one panel, then those of the next one.
struct AmxCursor {
  const uint8_t* panel;
  size_t k;
  size_t left;  // tiles, with this one
};

// All panels of the block for the inputs from tile `begin` to `end`.
template <int M, typename Unpacker>
static void multiplySpan(const Unpacker& unpacker, const MatmulBlock& block, const AmxRows& rows, size_t begin,
                         size_t end, uint8_t* buffer, const float* partialBias) {
  const size_t panels = (block.outputs + kPanelOutputs - 1) / kPanelOutputs,
               prefetch = kAmxPrefetchPanels * block.panelBytes;
  AmxCursor next{block.panels, begin, panels * (end - begin)};
  const auto advance = [&] {
    if (next.left <= 1) return;  // what is after the last tile is that one again, unpacked to where it does no harm
    next.left--;
    if (++next.k == end) next.k = begin, next.panel += block.panelBytes;
  };
  const auto placeOf = [buffer](size_t n) { return buffer + n % kAmxPlaces * kAmxTileBytes; };
  size_t step = 0;
  for (; step < kAmxAhead; step++) {
    const auto group = unpacker.group(next.panel, prefetch, next.k);
    unpacker.template quarter<0>(group, placeOf(step));
    unpacker.template quarter<1>(group, placeOf(step));
    unpacker.template quarter<2>(group, placeOf(step));
    unpacker.template quarter<3>(group, placeOf(step));
    advance();
  }
  for (size_t panel = 0; panel < panels; panel++) {
    float* accumulators = block.output + panel * kPanelOutputs;
    const bool partial = (panel + 1) * kPanelOutputs > block.outputs;
    loadAccumulators<M>(accumulators, block.outputStride, begin == 0,
                        block.bias == nullptr ? nullptr
                        : partial             ? partialBias
                                              : block.bias + panel * kPanelOutputs);
    for (size_t k = begin; k < end; k++, step++) {
      multiplyTile<M>(rows, k, placeOf(step - kAmxAhead), unpacker, unpacker.group(next.panel, prefetch, next.k),
                      placeOf(step));
      advance();
    }
    storeAccumulators<M>(accumulators, block.outputStride);
  }
}

template <typename Unpacker>
static void multiplyBlock(const MatmulBlock& block, uint8_t* workspace) {
  const Unpacker unpacker(block.inputs);
  if (takesFused(block.rows, block.inputs)) return multiplyFused(unpacker, block, workspace);
  const size_t rowTiles = (block.rows + kAmxRows - 1) / kAmxRows, last = block.rows - (rowTiles - 1) * kAmxRows,
               partial = block.outputs % kPanelOutputs;
  const size_t inputTiles = tilesOf(block.inputs), spanTiles = kAmxSpanTiles / rowTiles,
               spans = (inputTiles + spanTiles - 1) / spanTiles;
  const AmxRows rows{block.quantised, inputTiles * kAmxTileBytes, last * kAmxRowBytes};
  float* partialBias = reinterpret_cast<float*>(workspace + kAmxBufferBytes);
  if (block.bias != nullptr && partial > 0)
    store(partialBias, loadPartial(block.bias + block.outputs - partial, partial));
  TileShape shape;
  shape.set(rowTiles, last);
  for (size_t s = 0; s < spans; s++) {
    const size_t begin = inputTiles * s / spans, end = inputTiles * (s + 1) / spans;
    switch (rowTiles) {
      case 1: multiplySpan<1>(unpacker, block, rows, begin, end, workspace, partialBias); break;
      case 2: multiplySpan<2>(unpacker, block, rows, begin, end, workspace, partialBias); break;
      case 3: multiplySpan<3>(unpacker, block, rows, begin, end, workspace, partialBias); break;
      default: multiplySpan<4>(unpacker, block, rows, begin, end, workspace, partialBias); break;
    }
  }
}

template <bool FourBits>
void multiplyTypesOf(const MatmulBlock& block, uint8_t* workspace) {
  withWeightType(block.type, [&](auto type) {
    constexpr WeightType T = decltype(type)::value;
    if constexpr (isQuantised(T) && (panelFormat(T).bits == 4) == FourBits)
      multiplyBlock<TileUnpacker<T>>(block, workspace);
  });
}

#undef SPILLWAY_FOR_ACCUMULATORS

}  // namespace spillway::SPILLWAY_ISA
