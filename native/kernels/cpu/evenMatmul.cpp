// Products of activations with one scale a row (EvenTile) with weights of one scale a row (Q8_R): integers from the
// first input to the last. Compiled for each instruction set (simd.h).
#include "dot.h"
#include "matmulIsa.h"

namespace spillway::SPILLWAY_ISA {
namespace {

constexpr int kPanels = SPILLWAY_ISA_LEVEL == 2 ? static_cast<int>(kEvenPanelsPerTile) : 1;
constexpr size_t kGroupBytes = 8 * kVectorBytes;
// Of a tile's panels so much is multiplied with all rows before the next. It stays in the second-level cache, not in
// the first: bringing it from there again for each tile of rows costs less than beginning and ending sums more often.
// On a Zen 4, which has 32 KiB and 1 MiB of them, one thread multiplies 5632 x 2048 with 32 and 64 rows at 83 and 85%
// of the peak with 16 KiB, 86 and 89 with 32, 92 and 93 with 64, 94 and 95 with 96, 94 and 95 with 128 (bench_matmul).
constexpr size_t kBlockBytes = 96 * 1024;
constexpr bool kZero = dotZero(8, 128) != 0;

// Weights of some panels, from some group on, as they lie.
struct EvenWeights {
  const uint8_t* vectors;
  size_t panelBytes;
  Bytes vector(size_t group, int p, int v) const {
    return loadBytes(vectors + static_cast<size_t>(p) * panelBytes + group * kGroupBytes +
                     static_cast<size_t>(v) * kVectorBytes);
  }
  EvenWeights from(int panel) const { return {vectors + static_cast<size_t>(panel) * panelBytes, panelBytes}; }
};

// Some groups of some panels, and what of the product begins and ends with them. Integer sums are kept where the output
// will be.
struct EvenBlock {
  EvenWeights weights;
  size_t begin, end;  // groups
  bool first, last;
  const uint8_t* scales;  // of the first panel
  Accumulators accumulators;
};

// Rows of activations as they lie in an EvenTile.
struct EvenRows {
  const EvenTile* tile;
  const EvenGroup* groups;
  const EvenDigits* digits;
  EvenRows(const uint8_t* at, size_t count)
      : tile(reinterpret_cast<const EvenTile*>(at)),
        groups(reinterpret_cast<const EvenGroup*>(tile + 1)),
        digits(reinterpret_cast<const EvenDigits*>(groups + count)) {}
};

// Adds a higher digit of a group, row by row, while the group's weights are in the first-level cache: in so few panels
// and vectors at a time that all is in registers beside the tile's own sums. Taken together, rows that have a digit at
// the same group were no faster on a Zen 4.
template <int R, int P>
inline __attribute__((always_inline)) void addDigit(const EvenWeights& weights, size_t group, const EvenDigits& digit,
                                                    i32x16 (&sum)[R][P]) {
  constexpr int kTogether = P % 3 == 0 ? 3 : P, kVectors = SPILLWAY_ISA_LEVEL == 2 ? 1 : 8;
  SPILLWAY_UNROLL(4)
  for (int r = 0; r < R; r++) {
    if ((digit.rows >> r & 1) == 0) continue;
    const TileValues& values = reinterpret_cast<const TileValues&>(digit.values[r]);
    SPILLWAY_UNROLL(2)
    for (int first = 0; first < P; first += kTogether) {
      i32x16 part[1][kTogether];
      SPILLWAY_UNROLL(3)
      for (int p = 0; p < kTogether; p++) part[0][p] = set1Int(0);
      SPILLWAY_UNROLL(1)
      for (int v = 0; v < 8; v += kVectors) dot<8, 1, kTogether, kVectors>(weights.from(first), group, v, values, part);
      SPILLWAY_UNROLL(3)
      for (int p = 0; p < kTogether; p++) {
        i32x16 counted = shiftLeft<kDigitBits>(part[0][p]);
        if (digit.place == 2) counted = shiftLeft<kDigitBits>(counted);
        sum[r][first + p] = add(sum[r][first + p], counted);
      }
    }
  }
}

template <int R, int P>
void multiplyTile(const EvenBlock& block, const EvenRows& rows, float* at, Ahead& ahead) {
  const size_t stride = block.accumulators.stride;
  i32x16 sum[R][P];
  SPILLWAY_UNROLL(4)
  for (int r = 0; r < R; r++) SPILLWAY_UNROLL(6)
  for (int p = 0; p < P; p++) {
    float* of = at + static_cast<size_t>(r) * stride + p * 16;
    if (block.first)
      sum[r][p] = set1Int(kZero ? rows.tile->start128[r] : 0);
    else
      sum[r][p] = asInt(load(of));
    __builtin_prefetch(of, 1);  // stored to much later; rows of a wide matrix are pages apart
  }
  const EvenGroup* groups = rows.groups + block.begin;
  const EvenWeights weights = block.weights;
  const size_t count = block.end - block.begin;
  const EvenDigits *digit = rows.digits, *const digits = digit + rows.tile->digits;  // the next, and after the last
  while (digit < digits && digit->group < block.begin) digit++;
  for (size_t g = 0; g < count;) {
    const size_t until = digit < digits && digit->group < block.end ? digit->group + 1 - block.begin : count;
    for (; g < until; g++) {
      ahead.step(g);
      dot<8, R, P, 8>(weights, g, 0, groups[g].values, sum);
    }
    for (; digit < digits && digit->group + 1 == block.begin + g; digit++) addDigit<R, P>(weights, g - 1, *digit, sum);
  }
  if (!block.last) {
    SPILLWAY_UNROLL(4)
    for (int r = 0; r < R; r++) SPILLWAY_UNROLL(6)
    for (int p = 0; p < P; p++) store(at + static_cast<size_t>(r) * stride + p * 16, asFloat(sum[r][p]));
    return;
  }
  SPILLWAY_UNROLL(6)
  for (int p = 0; p < P; p++) {
    const f32x16 scale =
        loadScale<ScaleKind::Row>(block.scales + static_cast<size_t>(p) * weights.panelBytes, 0, 0).scale;
    const f32x16 bias = block.accumulators.bias == nullptr ? zero() : load(block.accumulators.bias + p * 16);
    SPILLWAY_UNROLL(4)
    for (int r = 0; r < R; r++)
      store(at + static_cast<size_t>(r) * stride + p * 16,
            fma(mul(toFloat(sum[r][p]), set1(rows.tile->scale[r])), scale, bias));
  }
}

template <int P>
void multiplyRows(const EvenBlock& block, const MatmulBlock& of, Ahead ahead) {
  const size_t groups = of.inputs / kGroupInputs, tileBytes = evenTileBytes(groups);
  ahead.spread((of.rows + kTileRows - 1) / kTileRows, block.end - block.begin);
  for (size_t row = 0; row < of.rows; row += kTileRows) {
    const EvenRows rows(of.quantised + row / kTileRows * tileBytes, groups);
    float* at = block.accumulators.at + row * block.accumulators.stride;
    switch (of.rows - row) {
      case 1: return multiplyTile<1, P>(block, rows, at, ahead);
      case 2: return multiplyTile<2, P>(block, rows, at, ahead);
      case 3: return multiplyTile<3, P>(block, rows, at, ahead);
      default: multiplyTile<4, P>(block, rows, at, ahead);
    }
  }
}

// P panels from `panel` on, all of them whole, for all rows.
template <int P>
void multiplyPanels(const MatmulBlock& of, size_t panel, const Accumulators& accumulators) {
  const size_t groups = of.inputs / kGroupInputs;
  // A tile of rows or less meets weights once.
  const size_t most = of.rows <= kTileRows ? groups : kBlockBytes / (P * kGroupBytes);
  const size_t blocks = (groups + most - 1) / most;
  const uint8_t* at = of.panels + panel * of.panelBytes;
  const uint8_t* following = (panel + P) * kPanelOutputs < of.outputs ? at + P * of.panelBytes : of.next;
  const size_t scales = groups * kGroupBytes;
  for (size_t b = 0; b < blocks; b++) {
    const size_t begin = groups * b / blocks, end = groups * (b + 1) / blocks;  // blocks of nearly equal size
    const bool last = b + 1 == blocks;  // what comes next is then the next panels' first block
    const size_t next = last ? 0 : end, nextEnd = last ? groups / blocks : groups * (b + 2) / blocks;
    const uint8_t* asked = last ? following : at;
    const Ahead ahead(asked, of.panelBytes, asked == nullptr ? 0 : P, {next * kGroupBytes, scales},
                      {(nextEnd - next) * kGroupBytes, 2 * kPanelOutputs});
    multiplyRows<P>({{at + begin * kGroupBytes, of.panelBytes}, begin, end, b == 0, last, at + scales, accumulators},
                    of, ahead);
  }
}

// A last panel of which only `count` outputs exist.
void multiplyPartialPanel(const MatmulBlock& block, size_t panel, size_t count, uint8_t* workspace) {
  const size_t output = panel * kPanelOutputs;
  float bias[kPanelOutputs] = {};
  for (size_t i = 0; i < count; i++) bias[i] = block.bias == nullptr ? 0 : block.bias[output + i];
  float* accumulators = reinterpret_cast<float*>(workspace);
  multiplyPanels<1>(block, panel, {accumulators, kPanelOutputs, bias});
  for (size_t row = 0; row < block.rows; row++)
    storePartial(block.output + row * block.outputStride + output, load(accumulators + row * kPanelOutputs), count);
}

}  // namespace

void multiplyEvenly(const MatmulBlock& block, uint8_t* workspace) {
  const size_t panels = block.outputs / kPanelOutputs;
  const auto accumulatorsAt = [&](size_t panel) {
    return Accumulators{block.output + panel * kPanelOutputs, block.outputStride,
                        block.bias == nullptr ? nullptr : block.bias + panel * kPanelOutputs};
  };
  size_t panel = 0;
  for (; panel + kPanels <= panels; panel += kPanels) multiplyPanels<kPanels>(block, panel, accumulatorsAt(panel));
  // A panel by itself has too few sums for the multipliers to be busy: four that are left are two and two.
  if constexpr (kPanels > 1) {
    if (panels - panel == 3 || panels - panel == 5) {
      multiplyPanels<3>(block, panel, accumulatorsAt(panel));
      panel += 3;
    }
    for (; panel + 2 <= panels; panel += 2) multiplyPanels<2>(block, panel, accumulatorsAt(panel));
  }
  for (; panel < panels; panel++) multiplyPanels<1>(block, panel, accumulatorsAt(panel));
  if (block.outputs % kPanelOutputs != 0) multiplyPartialPanel(block, panel, block.outputs % kPanelOutputs, workspace);
}

}  // namespace spillway::SPILLWAY_ISA
