// Products of 8-bit activations with weights that quantisedMatmul.h has made ready: what all types with the same
// arithmetic share.
#include "weightTile.h"
#if SPILLWAY_ISA_LEVEL == 1
#include "unpackedTileAvx2.h"
#elif SPILLWAY_ISA_LEVEL == 3
#include "unpackedTileNeon.h"
#endif

namespace spillway::SPILLWAY_ISA {
namespace {

#if SPILLWAY_ISA_LEVEL != 1 && SPILLWAY_ISA_LEVEL != 3

// StoredBits: 4 where vectors are nibbles, otherwise 8.
template <typename A, int P, int StoredBits>
struct PreparedSource {
  PreparedWeights weights;  // not a reference: nothing that is written on the way could then be a part of it
  Ahead* ahead;
  Bytes vector(size_t group, int p, int v) const {
    return unpackVector<StoredBits>(
        weights.vectors + static_cast<size_t>(p) * weights.panelStride + group * (StoredBits * kVectorBytes), v);
  }
  const float* scalesAt(size_t group, int p, int half) const {
    return weights.scales +
           ((group * P + static_cast<size_t>(p)) * A::kHalves + static_cast<size_t>(half)) * kUnpackedScale;
  }
  f32x16 scale(size_t group, int p, int half) const { return load(scalesAt(group, p, half)); }
  f32x16 offset(size_t group, int p, int half) const { return load(scalesAt(group, p, half) + kPanelOutputs); }
  void prefetch(size_t group, int p) const {
    if (p == 0) ahead->step(group);
  }
};

template <typename A, int R, int P, int StoredBits>
void multiplyPreparedTile(const PreparedWeights& weights, const QuantisedTile* tile, size_t starts, Ends ends,
                          const Accumulators& accumulators, size_t row, Ahead& ahead) {
  multiplyTile<A, R, P>(PreparedSource<A, P, StoredBits>{weights, &ahead}, weights.groups, tile, starts, ends,
                        accumulators, row);
}

#endif

template <typename A, int P, int StoredBits>
void multiplyRows(const PreparedWeights& weights, const QuantisedTile* tiles, size_t tileStride, size_t starts,
                  size_t rows, Ends ends, const Accumulators& accumulators, Ahead ahead) {
  ahead.spread((rows + kTileRows - 1) / kTileRows, weights.groups);
  size_t row = 0;
  for (; row + 4 <= rows; row += 4)
    multiplyPreparedTile<A, 4, P, StoredBits>(weights, tiles + row / 4 * tileStride, starts, ends, accumulators, row,
                                              ahead);
  const QuantisedTile* last = tiles + row / 4 * tileStride;
  switch (rows - row) {
    case 3: return multiplyPreparedTile<A, 3, P, StoredBits>(weights, last, starts, ends, accumulators, row, ahead);
    case 2: return multiplyPreparedTile<A, 2, P, StoredBits>(weights, last, starts, ends, accumulators, row, ahead);
    case 1: return multiplyPreparedTile<A, 1, P, StoredBits>(weights, last, starts, ends, accumulators, row, ahead);
    default: return;
  }
}

template <typename A, int StoredBits = 8>
MultiplyPrepared forPanels(int panels) {
  return panels == kPanelsTogether ? multiplyRows<A, kPanelsTogether, StoredBits> : multiplyRows<A, 1, StoredBits>;
}

}  // namespace

// Types with offsets have no zero point, and the others have one.
MultiplyPrepared multiplyPrepared(const PanelFormat& format, int panels, bool inPlace) {
  const int bits = format.numberBits();
  if (format.scalesPerGroup == 2) {
    if (format.offset) return forPanels<Arithmetic<2, 2, false, true>>(panels);
    return bits == 3 ? forPanels<Arithmetic<3, 2, true, false>>(panels)
                     : forPanels<Arithmetic<6, 2, true, false>>(panels);
  }
#if SPILLWAY_ISA_LEVEL == 1  // how many products add up in 16 bits depends on the number of bits
  if (bits == 8) return forPanels<Arithmetic<8, 1, true, false>>(panels);
  if (bits == 5)
    return format.offset ? forPanels<Arithmetic<5, 1, false, true>>(panels)
                         : forPanels<Arithmetic<5, 1, true, false>>(panels);
#elif SPILLWAY_ISA_LEVEL == 2
  if (inPlace && bits == 4)
    return format.offset ? forPanels<Arithmetic<4, 1, false, true>, 4>(panels)
                         : forPanels<Arithmetic<4, 1, true, false>, 4>(panels);
#endif
  (void)inPlace;
  return format.offset ? forPanels<Arithmetic<4, 1, false, true>>(panels)
                       : forPanels<Arithmetic<4, 1, true, false>>(panels);
}

}  // namespace spillway::SPILLWAY_ISA
