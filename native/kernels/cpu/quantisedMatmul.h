// Products of 8-bit activations with quantised weights, for one type of weights. Included by the quantisedMatmul*.cpp
// files, which divide the types among them.
#pragma once
#include "weightTile.h"

namespace spillway::SPILLWAY_ISA {

// Inputs that are unpacked at a time: vectors and scales of the panels of a tile stay in the first-level cache, or
// nearly so where that has 32 KiB.
static constexpr size_t groupsPerBlock(const PanelFormat& format) { return format.scalesPerGroup == 2 ? 12 : 18; }
// Inputs of a block whose vectors are multiplied as they lie: those stay in the second-level cache. On a Zen 4 one
// thread multiplies 5632 x 2048 of Q4_K with 16, 32 and 64 rows at 71, 73 and 75% of the peak by blocks of 18 groups,
// at 72, 74 and 75% by 36, at 73, 75 and 76% by 72; of Q8_0 at 71, 77 and 79%, and at 77, 78 and 82% (bench_matmul,
// others beside).
constexpr size_t kGroupsInPlace = 72;
constexpr size_t kPartialBytes =
    kMatmulBlockRows * kPanelOutputs *
    sizeof(float);  // at the workspace's begin: the accumulators of a panel that is used in part

// Weights as they lie in panels.
template <WeightType T>
struct PackedWeights {
  static constexpr PanelFormat format = panelFormat(T);
  const uint8_t* panel;
  size_t panelBytes;
  size_t scalesAt;
  const uint8_t* next;  // what comes after these panels; or null
  Bytes vector(size_t group, int p, int v) const {
    return numbersOf<T>(panel + static_cast<size_t>(p) * panelBytes + group * (format.bits * kVectorBytes), v);
  }
  // Asks for as many bytes of what comes next as this group has: a panel is too short for the processor's own
  // prefetching to get going.
  void prefetch(size_t group, int p) const {
    if (next == nullptr) return;
    const uint8_t* ahead = next + static_cast<size_t>(p) * panelBytes;
    SPILLWAY_UNROLL(8)
    for (int line = 0; line < format.bits; line++)
      prefetchLine(ahead + (group * format.bits + static_cast<size_t>(line)) * kVectorBytes);
    prefetchLine(ahead + scalesAt + group * scaleBytesPerGroup(format.kind));
  }
  GroupScale both(size_t group, int p, int half) const {
    return loadScale<format.kind>(panel + static_cast<size_t>(p) * panelBytes + scalesAt, group, half);
  }
  f32x16 scale(size_t group, int p, int half) const { return both(group, p, half).scale; }
  f32x16 offset(size_t group, int p, int half) const { return both(group, p, half).offset; }
};

#if SPILLWAY_ISA_LEVEL != 3
template <int Bits>
static inline void storePair(uint8_t* at, Bytes even, Bytes odd) {
  if constexpr (unpackedVectors(Bits) == 16) {
    storeBytes(at, field(even, 0, 0x0f));
    storeBytes(at + kVectorBytes, field(even, 4, 0x0f));
    storeBytes(at + 2 * kVectorBytes, field(odd, 0, 0x0f));
    storeBytes(at + 3 * kVectorBytes, field(odd, 4, 0x0f));
  } else {
    storeBytes(at, even);
    storeBytes(at + kVectorBytes, odd);
  }
}
#endif

// Panel by panel, `panelBytes` apart.
template <WeightType T, int P>
static void unpackVectors(const PackedWeights<T>& packed, size_t firstGroup, size_t groups, uint8_t* to,
                          size_t panelBytes) {
  constexpr int kBits = panelFormat(T).numberBits();
  for (int p = 0; p < P; p++) {
    uint8_t* vector = to + static_cast<size_t>(p) * panelBytes;
    for (size_t group = firstGroup; group < firstGroup + groups; group++) {
      SPILLWAY_UNROLL(4)
      for (int v = 0; v < 8; v += 2) {
        storePair<kBits>(vector, packed.vector(group, p, v), packed.vector(group, p, v + 1));
        vector += unpackedVectors(kBits) / 4 * kVectorBytes;
      }
    }
  }
}

template <WeightType T, int P>
static void unpackScales(const PackedWeights<T>& packed, size_t firstGroup, size_t groups, float* to) {
  constexpr PanelFormat format = panelFormat(T);
  for (int p = 0; p < P; p++) {
    const uint8_t* scales = packed.panel + static_cast<size_t>(p) * packed.panelBytes + packed.scalesAt;
    float* at = to + static_cast<size_t>(p) * format.scalesPerGroup * kUnpackedScale;
    GroupScale common = loadCommon<format.kind>(scalesOf<format.kind>(scales, firstGroup));
    for (size_t group = firstGroup; group < firstGroup + groups; group++) {
      const uint8_t* from = scalesOf<format.kind>(scales, group);
      if (group % groupsPerScales(format.kind) == 0) common = loadCommon<format.kind>(from);
      for (int half = 0; half < format.scalesPerGroup; half++) {
        const GroupScale scale = loadScale<format.kind>(common, from, group, half);
        store(at + half * kUnpackedScale, scale.scale);
        if (format.offset) store(at + half * kUnpackedScale + kPanelOutputs, scale.offset);
      }
      at += P * format.scalesPerGroup * kUnpackedScale;
    }
  }
}

static inline const QuantisedTile* tilesOf(const MatmulBlock& block) {
  return reinterpret_cast<const QuantisedTile*>(block.quantised);
}

// A tile of rows or less: memory is what it waits for, so weights are unpacked in registers.
template <WeightType T, int P>
static void multiplyPacked(const PackedWeights<T>& packed, size_t groups, const MatmulBlock& block,
                           const Accumulators& accumulators) {
  constexpr PanelFormat format = panelFormat(T);
  constexpr int zero = dotZero(format.numberBits(), format.zero);
  using A = Arithmetic<format.numberBits(), format.scalesPerGroup, zero != 0, format.offset>;
  switch (block.rows) {
    case 1: return multiplyTile<A, 1, P>(packed, groups, tilesOf(block), startsAt(zero), {true, true}, accumulators, 0);
    case 2: return multiplyTile<A, 2, P>(packed, groups, tilesOf(block), startsAt(zero), {true, true}, accumulators, 0);
    case 3: return multiplyTile<A, 3, P>(packed, groups, tilesOf(block), startsAt(zero), {true, true}, accumulators, 0);
    default:
      return multiplyTile<A, 4, P>(packed, groups, tilesOf(block), startsAt(zero), {true, true}, accumulators, 0);
  }
}

// P panels from `panel` on, all of them whole, for all rows of the block.
template <WeightType T, int P>
static void multiplyPanels(const MatmulBlock& block, size_t panel, const Accumulators& accumulators,
                           uint8_t* workspace) {
  constexpr PanelFormat format = panelFormat(T);
  constexpr size_t kScaleBytes = scaleBytesPerGroup(format.kind);
  constexpr size_t kMostGroups = groupsPerBlock(format);
  constexpr size_t kUnpackedPanel = kMostGroups * unpackedVectors(format.numberBits()) * kVectorBytes,
                   kVectorsBytes = P * kUnpackedPanel;
  constexpr size_t kScalesBytes = P * format.scalesPerGroup * kUnpackedScale * sizeof(float);  // of a group
  static_assert(kPartialBytes + kVectorsBytes + kMostGroups * kScalesBytes <= kMatmulWorkspaceBytes &&
                    (!inPlace(format) || kPartialBytes + kGroupsInPlace * kScalesBytes <= kMatmulWorkspaceBytes),
                "the workspace is large enough");
  const size_t groups = block.inputs / kGroupInputs;
  const uint8_t* at = block.panels + panel * block.panelBytes;
  const uint8_t* following = (panel + P) * kPanelOutputs < block.outputs ? at + P * block.panelBytes : block.next;
  const PackedWeights<T> packed{at, block.panelBytes, scalesAt(format, block.inputs), following};
  if constexpr (P == kPanelsTogether) {  // the few panels that are left over need no tiles of their own
    if (block.rows <= kTileRows) return multiplyPacked<T, P>(packed, groups, block, accumulators);
  }
  const bool asTheyLie = inPlace(format) && block.rows <= block.mostRowsInPlace;
  const MultiplyPrepared multiply = multiplyPrepared(format, P, asTheyLie);
  constexpr size_t kStoredGroup = format.bits * kVectorBytes;
  uint8_t* vectors = workspace + kPartialBytes;
  float* scales = reinterpret_cast<float*>(asTheyLie ? vectors : vectors + kVectorsBytes);
  const size_t most = asTheyLie ? kGroupsInPlace : kMostGroups;
  const size_t blocks = (groups + most - 1) / most;
  size_t begin = 0;
  for (size_t b = 0; b < blocks; b++) {
    const size_t end = groups * (b + 1) / blocks;  // blocks of nearly equal size
    const bool last = b + 1 == blocks;             // what comes next is then the next panels' first block
    const size_t next = last ? 0 : end, nextEnd = last ? groups / blocks : groups * (b + 2) / blocks;
    const uint8_t* asked = last ? packed.next : packed.panel;
    const Ahead ahead(asked, block.panelBytes, asked == nullptr ? 0 : P,
                      {next * kStoredGroup, packed.scalesAt + next * kScaleBytes},
                      {(nextEnd - next) * kStoredGroup, (nextEnd - next) * kScaleBytes});
    unpackScales<T, P>(packed, begin, end - begin, scales);
    if (!asTheyLie) unpackVectors<T, P>(packed, begin, end - begin, vectors, kUnpackedPanel);
    const PreparedWeights prepared =
        asTheyLie ? PreparedWeights{packed.panel + begin * kStoredGroup, block.panelBytes, scales, end - begin}
                  : PreparedWeights{vectors, kUnpackedPanel, scales, end - begin};
    multiply(prepared, tilesOf(block) + begin, kTilesPerGroup * groups, startsAt(unpackedZero(format)), block.rows,
             {b == 0, last}, accumulators, ahead);
    begin = end;
  }
}

// A last panel of which only `count` outputs exist.
template <WeightType T>
static void multiplyPartialPanel(const MatmulBlock& block, size_t panel, size_t count, uint8_t* workspace) {
  const size_t output = panel * kPanelOutputs;
  float bias[kPanelOutputs] = {};
  for (size_t i = 0; i < count; i++) bias[i] = block.bias == nullptr ? 0 : block.bias[output + i];
  float* accumulators = reinterpret_cast<float*>(workspace);
  multiplyPanels<T, 1>(block, panel, {accumulators, kPanelOutputs, bias}, workspace);
  for (size_t row = 0; row < block.rows; row++)
    storePartial(block.output + row * block.outputStride + output, load(accumulators + row * kPanelOutputs), count);
}

template <WeightType T>
static void multiplyType(const MatmulBlock& block, uint8_t* workspace) {
  const size_t panels = block.outputs / kPanelOutputs;
  const auto accumulatorsAt = [&](size_t panel) {
    return Accumulators{block.output + panel * kPanelOutputs, block.outputStride,
                        block.bias == nullptr ? nullptr : block.bias + panel * kPanelOutputs};
  };
  size_t panel = 0;
  for (; panel + kPanelsTogether <= panels; panel += kPanelsTogether)
    multiplyPanels<T, kPanelsTogether>(block, panel, accumulatorsAt(panel), workspace);
  if constexpr (kPanelsTogether > 1)
    for (; panel < panels; panel++) multiplyPanels<T, 1>(block, panel, accumulatorsAt(panel), workspace);
  if (block.outputs % kPanelOutputs != 0)
    multiplyPartialPanel<T>(block, panel, block.outputs % kPanelOutputs, workspace);
}

template <int Bits>
void multiplyTypesOf(const MatmulBlock& block, uint8_t* workspace) {
  withWeightType(block.type, [&](auto type) {
    constexpr WeightType T = decltype(type)::value;
    constexpr PanelFormat format = panelFormat(T);
    if constexpr (isQuantised(T) && format.kind != ScaleKind::Row && format.bits == Bits)
      multiplyType<T>(block, workspace);
  });
}

}  // namespace spillway::SPILLWAY_ISA
