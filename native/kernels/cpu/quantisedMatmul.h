// Products of 8-bit activations with quantised weights, for one type of weights. Included by the quantisedMatmul*.cpp files, which divide the types among them.
#pragma once
#include "dot.h"
#include "matmulIsa.h"

namespace spillway::SPILLWAY_ISA {

// Inputs that are unpacked at a time: vectors and scales of the panels of a tile stay in the first-level cache.
constexpr size_t kGroupsPerBlock = 18;
constexpr size_t kPartialBytes = kMatmulBlockRows * kPanelOutputs * sizeof(float);  // at the workspace's begin: the totals of a panel that is used in part

template <WeightType T>
struct Traits {
  static constexpr PanelFormat format = panelFormat(T);
  static constexpr int halves = format.scalesPerGroup;
  static constexpr int zero = dotZero(format.bits, format.zero);
  // AVX-512 has 32 registers; the others have sixteen, half as wide or less.
  static constexpr int panels = SPILLWAY_ISA_LEVEL == 2 ? static_cast<int>(panelsPerTile(T, true)) : 1;
};

// Where the sum of a row's products starts from: the bias, less the zero point's part.
template <WeightType T>
static inline i32x16 startSum(const QuantisedTile& tile, int row, int half) {
  constexpr int zero = Traits<T>::zero;
  static_assert(zero == 0 || (Traits<T>::halves == 1 ? zero == 8 || zero == 16 || zero == 128 : zero == 4 || zero == 32), "a tile holds the start for it");
  if constexpr (zero == 8) return set1Int(tile.start8[row]);
  if constexpr (zero == 16) return set1Int(tile.start16[row]);
  if constexpr (zero == 128) return set1Int(tile.start128[row]);
  if constexpr (zero == 32) return set1Int(tile.halfStart32[half][row]);
  if constexpr (zero == 4) return add(shiftRight<3>(sub(set1Int(tile.halfStart32[half][row]), set1Int(kBiasBits))), set1Int(kBiasBits));
  return set1Int(kBiasBits);
}

// scale * sum of a row's activations, for the offset: of the group, or of a half of it.
template <WeightType T>
static inline f32x16 scaledSum(const QuantisedTile& tile, int row, int half) {
  if constexpr (Traits<T>::halves == 1) return set1(tile.scaledSum[row]);
  const float sum = static_cast<float>((kBiasBits - tile.halfStart32[half][row]) / 32);
  return set1(tile.scale[row] * sum);
}

// Weights as they lie in panels.
template <WeightType T>
struct PackedSource {
  using Format = Traits<T>;
  const uint8_t* panel;
  size_t panelBytes;
  size_t scalesAt;
  Bytes vector(size_t group, int p, int v) const {
    return unpackVector<Format::format.bits>(panel + static_cast<size_t>(p) * panelBytes + group * (Format::format.bits * kVectorBytes), v);
  }
  // Asks for the bytes of this group in the panel that lies `panels` further on: a panel is too short for the processor's own prefetching to get going.
  void prefetch(size_t group, int p, int panels) const {
    const uint8_t* ahead = panel + static_cast<size_t>(p + panels) * panelBytes;
    SPILLWAY_UNROLL(8)
    for (int line = 0; line < Format::format.bits; line++)
      __builtin_prefetch(ahead + (group * Format::format.bits + static_cast<size_t>(line)) * kVectorBytes, 0, 2);
    __builtin_prefetch(ahead + scalesAt + group * scaleBytesPerGroup(Format::format.kind), 0, 2);
  }
  GroupScale scale(size_t group, int p, int half) const {
    return loadScale<Format::format.kind>(panel + static_cast<size_t>(p) * panelBytes + scalesAt, group, half);
  }
};

// Weights unpacked: vectors [group][panel][8]; scale and offset [group][panel][half].
template <WeightType T, int P>
struct UnpackedSource {
  using Format = Traits<T>;
  static constexpr size_t kVectors = kGroupsPerBlock * P * 8;
  uint8_t* vectors;
  float* scales;
  explicit UnpackedSource(uint8_t* workspace) : vectors(workspace), scales(reinterpret_cast<float*>(workspace + kVectors * kVectorBytes)) {}
  static constexpr size_t bytes() { return kVectors * kVectorBytes + kGroupsPerBlock * P * Format::halves * 2 * 16 * sizeof(float); }

  uint8_t* vectorAt(size_t group, int p, int v) const { return vectors + ((group * P + static_cast<size_t>(p)) * 8 + static_cast<size_t>(v)) * kVectorBytes; }
  float* scaleAt(size_t group, int p, int half) const {
    return scales + ((group * P + static_cast<size_t>(p)) * Format::halves + static_cast<size_t>(half)) * 32;
  }
  Bytes vector(size_t group, int p, int v) const { return loadBytes(vectorAt(group, p, v)); }
  GroupScale scale(size_t group, int p, int half) const {
    const float* at = scaleAt(group, p, half);
    return {load(at), Format::format.offset ? load(at + 16) : zero()};
  }
  void prefetch(size_t, int, int) const {}
  void fill(const PackedSource<T>& packed, size_t firstGroup, size_t groups) {
    for (size_t g = 0; g < groups; g++)
      for (int p = 0; p < P; p++) {
        packed.prefetch(firstGroup + g, p, P);
        SPILLWAY_UNROLL(8)
        for (int v = 0; v < 8; v++) storeBytes(vectorAt(g, p, v), packed.vector(firstGroup + g, p, v));
        for (int half = 0; half < Format::halves; half++) {
          const GroupScale from = packed.scale(firstGroup + g, p, half);
          store(scaleAt(g, p, half), from.scale);
          if (Format::format.offset) store(scaleAt(g, p, half) + 16, from.offset);
        }
      }
  }
};

// One group of one register tile. The float operations and their order are those that MatmulKernels.h promises.
template <WeightType T, int R, int P, typename Source>
static inline void multiplyGroup(const Source& source, size_t group, const QuantisedTile& tile, f32x16 (&total)[R][P]) {
  using Format = Traits<T>;
  constexpr int kHalves = Format::halves;
  f32x16 scaled[R][P];
  SPILLWAY_UNROLL(2)
  for (int half = 0; half < kHalves; half++) {
    i32x16 sum[R][P];
    SPILLWAY_UNROLL(4)
    for (int r = 0; r < R; r++)
      SPILLWAY_UNROLL(4)
      for (int p = 0; p < P; p++) sum[r][p] = startSum<T>(tile, r, half);
    dot<Format::format.bits, R, P, 8 / kHalves>(source, group, 4 * half, tile, sum);
    SPILLWAY_UNROLL(4)
    for (int p = 0; p < P; p++) {
      const f32x16 scale = source.scale(group, p, half).scale;
      const f32x16 unbias = minusBias(scale);
      SPILLWAY_UNROLL(4)
      for (int r = 0; r < R; r++) {
        if (half == 0)
          scaled[r][p] = fma(asFloat(sum[r][p]), scale, unbias);
        else  // the subtraction is exact
          scaled[r][p] = fma(sub(asFloat(sum[r][p]), set1(kBias)), scale, scaled[r][p]);
      }
    }
  }
  SPILLWAY_UNROLL(4)
  for (int p = 0; p < P; p++)
    SPILLWAY_UNROLL(4)
    for (int r = 0; r < R; r++) total[r][p] = fma(scaled[r][p], set1(tile.scale[r]), total[r][p]);
  if constexpr (!Format::format.offset) return;
  SPILLWAY_UNROLL(2)
  for (int half = 0; half < kHalves; half++)
    SPILLWAY_UNROLL(4)
    for (int p = 0; p < P; p++) {
      const f32x16 offset = source.scale(group, p, half).offset;
      SPILLWAY_UNROLL(4)
      for (int r = 0; r < R; r++) total[r][p] = fma(offset, scaledSum<T>(tile, r, half), total[r][p]);
    }
}

// Where the totals of a row of tiles are: in the output, or, for a panel that is used in part, in the workspace.
struct Totals {
  float* at;
  size_t stride;
  const float* bias;  // of the first panel, or null
};

// Adds `groups` groups to the totals of R rows. `first`: they begin here.
template <WeightType T, int R, int P, typename Source>
static inline void multiplyTile(const Source& source, size_t groups, const QuantisedTile* tiles, bool first, const Totals& totals, size_t row) {
  f32x16 total[R][P];
  float* at = totals.at + row * totals.stride;
  SPILLWAY_UNROLL(4)
  for (int p = 0; p < P; p++)
    SPILLWAY_UNROLL(4)
    for (int r = 0; r < R; r++) {
      if (first)  // never -0, to which a neighbour's refinement would add 0
        total[r][p] = totals.bias == nullptr ? zero() : add(load(totals.bias + p * 16), zero());
      else
        total[r][p] = load(at + static_cast<size_t>(r) * totals.stride + p * 16);
    }
  const QuantisedTile* tile = tiles;
  for (size_t g = 0; g < groups;) {
    SPILLWAY_UNROLL(4)
    for (int p = 0; p < P; p++) source.prefetch(g, p, P);
    multiplyGroup<T, R, P>(source, g, *tile, total);
    g += tile->advance;
    tile += tile->next;
  }
  SPILLWAY_UNROLL(4)
  for (int r = 0; r < R; r++)
    SPILLWAY_UNROLL(4)
    for (int p = 0; p < P; p++) store(at + static_cast<size_t>(r) * totals.stride + p * 16, total[r][p]);
}

template <WeightType T, int P, typename Source>
static inline void multiplyRows(const Source& source, size_t groups, const QuantisedTile* tiles, size_t tileStride, size_t rows, bool first, const Totals& totals) {
  size_t row = 0;
  for (; row + 4 <= rows; row += 4) multiplyTile<T, 4, P>(source, groups, tiles + row / 4 * tileStride, first, totals, row);
  const QuantisedTile* last = tiles + row / 4 * tileStride;
  switch (rows - row) {
    case 3: return multiplyTile<T, 3, P>(source, groups, last, first, totals, row);
    case 2: return multiplyTile<T, 2, P>(source, groups, last, first, totals, row);
    case 1: return multiplyTile<T, 1, P>(source, groups, last, first, totals, row);
    default: return;
  }
}

// P panels from `panel` on, all of them whole, for all rows of the block.
template <WeightType T, int P>
static void multiplyPanels(const MatmulBlock& block, size_t panel, const Totals& totals, uint8_t* workspace) {
  static_assert(UnpackedSource<T, P>::bytes() + kPartialBytes <= kMatmulWorkspaceBytes, "the workspace is large enough");
  const size_t groups = block.inputs / kGroupInputs;
  const size_t tileStride = kTilesPerGroup * groups;
  const PackedSource<T> packed{block.panels + panel * block.panelBytes, block.panelBytes, scalesAt(Traits<T>::format, block.inputs)};
  if (block.rows <= kTileRows) return multiplyRows<T, P>(packed, groups, block.tiles, tileStride, block.rows, true, totals);  // unpacked in registers
  UnpackedSource<T, P> unpacked(workspace + kPartialBytes);
  const size_t blocks = (groups + kGroupsPerBlock - 1) / kGroupsPerBlock;
  size_t begin = 0;
  for (size_t b = 0; b < blocks; b++) {
    const size_t end = groups * (b + 1) / blocks;  // blocks of nearly equal size
    unpacked.fill(packed, begin, end - begin);
    multiplyRows<T, P>(unpacked, end - begin, block.tiles + begin, tileStride, block.rows, b == 0, totals);
    begin = end;
  }
}

// A last panel of which only `count` outputs exist.
template <WeightType T>
static void multiplyPartialPanel(const MatmulBlock& block, size_t panel, size_t count, uint8_t* workspace) {
  const size_t output = panel * kPanelOutputs;
  float bias[kPanelOutputs] = {};
  for (size_t i = 0; i < count; i++) bias[i] = block.bias == nullptr ? 0 : block.bias[output + i];
  float* totals = reinterpret_cast<float*>(workspace);
  multiplyPanels<T, 1>(block, panel, {totals, kPanelOutputs, bias}, workspace);
  for (size_t row = 0; row < block.rows; row++) storePartial(block.output + row * block.outputStride + output, load(totals + row * kPanelOutputs), count);
}

template <WeightType T>
static void multiplyType(const MatmulBlock& block, uint8_t* workspace) {
  constexpr int kPanels = Traits<T>::panels;
  const size_t panels = block.outputs / kPanelOutputs;
  const auto totalsAt = [&](size_t panel) {
    return Totals{block.output + panel * kPanelOutputs, block.outputStride, block.bias == nullptr ? nullptr : block.bias + panel * kPanelOutputs};
  };
  size_t panel = 0;
  for (; panel + kPanels <= panels; panel += kPanels) multiplyPanels<T, kPanels>(block, panel, totalsAt(panel), workspace);
  if constexpr (kPanels > 1)
    for (; panel < panels; panel++) multiplyPanels<T, 1>(block, panel, totalsAt(panel), workspace);
  if (block.outputs % kPanelOutputs != 0) multiplyPartialPanel<T>(block, panel, block.outputs % kPanelOutputs, workspace);
}

}  // namespace spillway::SPILLWAY_ISA
