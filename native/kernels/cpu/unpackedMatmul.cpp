// Products of 8-bit activations with weights that quantisedMatmul.h has unpacked: what all types with the same arithmetic share.
#include "quantisedTile.h"
#if SPILLWAY_ISA_LEVEL == 1
#include "unpackedTileAvx2.h"
#endif

namespace spillway::SPILLWAY_ISA {
namespace {

#if SPILLWAY_ISA_LEVEL != 1

template <typename A, int P>
struct UnpackedSource {
  const uint8_t* vectors;
  const float* scales;
  Ahead* ahead;
  Bytes vector(size_t group, int p, int v) const { return loadBytes(vectors + ((group * P + static_cast<size_t>(p)) * 8 + static_cast<size_t>(v)) * kVectorBytes); }
  const float* scalesAt(size_t group, int p, int half) const {
    return scales + ((group * P + static_cast<size_t>(p)) * A::kHalves + static_cast<size_t>(half)) * kUnpackedScale;
  }
  f32x16 scale(size_t group, int p, int half) const { return load(scalesAt(group, p, half)); }
  f32x16 unbias(size_t group, int p, int half, f32x16) const { return load(scalesAt(group, p, half) + kPanelOutputs); }
  f32x16 offset(size_t group, int p, int half) const { return load(scalesAt(group, p, half) + 2 * kPanelOutputs); }
  void prefetch(size_t group, int p, int) const {
    if (p == 0) ahead->step(group);
  }
};

template <typename A, int R, int P>
void multiplyUnpackedTile(const UnpackedWeights& weights, const QuantisedTile* tile, size_t starts, bool first, const Totals& totals, size_t row, Ahead& ahead) {
  multiplyTile<A, R, P>(UnpackedSource<A, P>{weights.vectors, weights.scales, &ahead}, weights.groups, tile, starts, first, totals, row);
}

#endif

template <typename A, int P>
void multiplyRows(const UnpackedWeights& weights, const QuantisedTile* tiles, size_t tileStride, size_t starts, size_t rows, bool first, const Totals& totals, Ahead ahead) {
  ahead.spread((rows + kTileRows - 1) / kTileRows, weights.groups);
  size_t row = 0;
  for (; row + 4 <= rows; row += 4) multiplyUnpackedTile<A, 4, P>(weights, tiles + row / 4 * tileStride, starts, first, totals, row, ahead);
  const QuantisedTile* last = tiles + row / 4 * tileStride;
  switch (rows - row) {
    case 3: return multiplyUnpackedTile<A, 3, P>(weights, last, starts, first, totals, row, ahead);
    case 2: return multiplyUnpackedTile<A, 2, P>(weights, last, starts, first, totals, row, ahead);
    case 1: return multiplyUnpackedTile<A, 1, P>(weights, last, starts, first, totals, row, ahead);
    default: return;
  }
}

template <typename A>
MultiplyUnpacked forPanels(int panels) {
  constexpr int kTogether = SPILLWAY_ISA_LEVEL != 2 ? 1 : A::kHalves == 1 ? 3 : 2;
  return panels == kTogether ? multiplyRows<A, kTogether> : multiplyRows<A, 1>;
}

}  // namespace

// Types with offsets have no zero point, and the others have one.
MultiplyUnpacked multiplyUnpacked(const PanelFormat& format, int panels) {
  if (format.scalesPerGroup == 2) {
    if (format.offset) return forPanels<Arithmetic<2, 2, false, true>>(panels);
    return format.bits == 3 ? forPanels<Arithmetic<3, 2, true, false>>(panels) : forPanels<Arithmetic<6, 2, true, false>>(panels);
  }
#if SPILLWAY_ISA_LEVEL == 1  // how many products add up in 16 bits depends on the number of bits
  if (format.bits == 8) return forPanels<Arithmetic<8, 1, true, false>>(panels);
  if (format.bits == 5) return format.offset ? forPanels<Arithmetic<5, 1, false, true>>(panels) : forPanels<Arithmetic<5, 1, true, false>>(panels);
#endif
  return format.offset ? forPanels<Arithmetic<4, 1, false, true>>(panels) : forPanels<Arithmetic<4, 1, true, false>>(panels);
}

}  // namespace spillway::SPILLWAY_ISA
