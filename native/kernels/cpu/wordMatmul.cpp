// Float activations times weights of float types, both rounded to integers of 16 bits with one scale a row: half as
// many instructions as products of floats take, and exact but for that rounding, so that instruction sets agree.
// Weights are rounded by whoever multiplies with them, once for all rows of a block. Compiled once for each instruction
// set (simd.h).
//
// So many products are added up in 32 bits before they become a float that activations can have 14 bits and weights 12:
// a few channels of most models carry values many times the others', and no row of weights does.
#include "matmulIsa.h"
#include "roundGroups.h"
#include "simdWords.h"

namespace spillway::SPILLWAY_ISA {
namespace {

constexpr size_t kSpanInputs = 128;
constexpr float kMostActivation = 8191, kMostWeight = 2047;
static_assert(double{kMostActivation} * kMostWeight * kSpanInputs < 2147483648.0, "sums of a span fit");
static_assert(kWordInputs % kSpanInputs == 0, "spans are the same wherever a matrix is cut");

constexpr int kRowsPerTile = SPILLWAY_ISA_LEVEL == 2 ? 8 : 4, kPanelsPerTile = SPILLWAY_ISA_LEVEL == 2 ? 2 : 1;
constexpr size_t kPanelWords = kWordInputs * kPanelOutputs;
// GCC keeps sums in their registers where a turn of the loop has several pairs (promptAttention.cpp).
constexpr size_t kPairsTogether = SPILLWAY_ISA_LEVEL == 2 ? 4 : 1;

// The workspace: rows and weights of some inputs as integers, what rows are rounded with, and the sums of a panel that
// is used in part.
struct Room {
  int16_t* rows;     // [kMatmulBlockRows][kWordInputs]
  int16_t* weights;  // [kPanelsPerTile][pairs of inputs][16 outputs][2]
  float *scale, *inverse, *partial;
  explicit Room(uint8_t* workspace)
      : rows(reinterpret_cast<int16_t*>(workspace)),
        weights(rows + kMatmulBlockRows * kWordInputs),
        scale(reinterpret_cast<float*>(weights + 2 * kPanelWords)),
        inverse(scale + kMatmulBlockRows),
        partial(inverse + kMatmulBlockRows) {}
};
static_assert(kPanelsPerTile <= 2, "the workspace has room for two panels");

// Some inputs of a product, and whether they are its first and its last ones.
struct Inputs {
  size_t first, count;
  Ends ends;
  size_t pairs() const { return (count + 1) / 2; }
};

static inline i32x16 larger(f32x16 x, i32x16 most) { return max(asInt(abs(x)), most); }
// Infinity where a number is not finite: as integers, in whose order NaN is beyond infinity.
static inline f32x16 sizeOf(i32x16 most) { return asFloat(min(most, set1Int(static_cast<int32_t>(kExponentMask)))); }
// What is no number, of rows whose scale is none, becomes some integer.
static inline i32x16 rounded(f32x16 x, f32x16 inverse, float most) {
  return integers(add(max(mul(x, inverse), set1(-most)), set1(kBias)));
}

void measureRow(const float* values, size_t inputs, float* scale, float* inverse) {
  i32x16 most = set1Int(0);
  size_t k = 0;
  for (; k + 16 <= inputs; k += 16) most = larger(load(values + k), most);
  if (k < inputs) most = larger(loadPartial(values + k, inputs - k), most);
  const float largest = reduceMax(sizeOf(most));
  *scale = largest <= kLargestRounded ? largest * (1.0f / kMostActivation) : __builtin_nanf("");
  *inverse = largest >= kSmallest && largest <= kLargestRounded ? kMostActivation / largest : 0.0f;
}

void roundRows(const MatmulBlock& block, Inputs inputs, const Room& room) {
  for (size_t row = 0; row < block.rows; row++) {
    const float* values = block.values + row * block.valueStride;
    if (inputs.ends.first) measureRow(values, block.inputs, room.scale + row, room.inverse + row);
    const f32x16 inverse = set1(room.inverse[row]);
    int16_t* to = room.rows + row * kWordInputs;
    values += inputs.first;
    size_t k = 0;
    for (; k + 16 <= inputs.count; k += 16) storeWords(to + k, rounded(load(values + k), inverse, kMostActivation));
    if (k < inputs.count)
      storeWords(to + k, rounded(loadPartial(values + k, inputs.count - k), inverse, kMostActivation));
  }
}

template <WeightType T>
static inline f32x16 weightsOf(const uint8_t* panel, size_t input) {
  const uint8_t* at = panel + input * kPanelOutputs * weightBlockBytes(T);
  if constexpr (T == WeightType::F32) return load(reinterpret_cast<const float*>(at));
  if constexpr (T == WeightType::F16) return loadHalf(reinterpret_cast<const uint16_t*>(at));
  return loadBfloat16(reinterpret_cast<const uint16_t*>(at));
}

// Some inputs of a panel; returns the outputs' scales.
template <WeightType T>
f32x16 roundPanel(const uint8_t* panel, size_t allInputs, Inputs inputs, int16_t* to) {
  i32x16 most = set1Int(0);
  for (size_t k = 0; k < allInputs; k++) most = larger(weightsOf<T>(panel, k), most);
  const f32x16 largest = sizeOf(most), least = set1(kSmallest), beyond = set1(kLargestRounded);
  const f32x16 inverse =
      selectLess(largest, least, zero(), selectLess(largest, beyond, div(set1(kMostWeight), largest), zero()));
  const auto at = [&](size_t k) { return rounded(weightsOf<T>(panel, inputs.first + k), inverse, kMostWeight); };
  size_t k = 0;
  for (; k + 2 <= inputs.count; k += 2, to += 2 * kPanelOutputs) storePairs(to, at(k), at(k + 1));
  if (k < inputs.count) storePairs(to, at(k), set1Int(0));
  return selectLess(largest, beyond, mul(largest, set1(1.0f / kMostWeight)), set1(__builtin_nanf("")));
}

// What becomes of the sums of some panels.
template <int P>
struct Outputs {
  float* at;
  size_t stride;
  f32x16 scale[P], bias[P];
};

template <int R, int P>
static inline void dotSpan(const int16_t* weights, const int16_t* rows, size_t pairs, i32x16 (&sum)[R][P]) {
  SPILLWAY_UNROLL(8)
  for (int r = 0; r < R; r++) SPILLWAY_UNROLL(2)
  for (int p = 0; p < P; p++) sum[r][p] = set1Int(0);
  const auto add = [&]() __attribute__((always_inline)) {
    SPILLWAY_UNROLL(8)
    for (int r = 0; r < R; r++) SPILLWAY_UNROLL(2)
    for (int p = 0; p < P; p++)
      sum[r][p] = dotPairs(sum[r][p], weights + static_cast<size_t>(p) * kPanelWords,
                           rows + static_cast<size_t>(r) * kWordInputs);
    weights += 2 * kPanelOutputs;
    rows += 2;
  };
  size_t pair = 0;
  for (; pair + kPairsTogether <= pairs; pair += kPairsTogether) {
    SPILLWAY_UNROLL(4)
    for (size_t i = 0; i < kPairsTogether; i++) add();
  }
  for (; pair < pairs; pair++) add();
}

template <int R, int P>
void multiplyTile(const Room& room, Inputs inputs, size_t row, const Outputs<P>& to) {
  float* at = to.at + row * to.stride;
  for (size_t pair = 0; pair < inputs.pairs(); pair += kSpanInputs / 2) {
    const size_t left = inputs.pairs() - pair;
    i32x16 sum[R][P];
    dotSpan<R, P>(room.weights + pair * 2 * kPanelOutputs, room.rows + row * kWordInputs + 2 * pair,
                  left < kSpanInputs / 2 ? left : kSpanInputs / 2, sum);
    const bool begins = inputs.ends.first && pair == 0, ends = inputs.ends.last && left <= kSpanInputs / 2;
    SPILLWAY_UNROLL(8)
    for (int r = 0; r < R; r++) {
      const f32x16 scale = set1(room.scale[row + static_cast<size_t>(r)]);
      SPILLWAY_UNROLL(2)
      for (int p = 0; p < P; p++) {
        float* of = at + static_cast<size_t>(r) * to.stride + p * 16;
        const f32x16 total = begins ? toFloat(sum[r][p]) : add(load(of), toFloat(sum[r][p]));
        store(of, ends ? fma(mul(total, scale), to.scale[p], to.bias[p]) : total);
      }
    }
  }
}

// Tiles of R rows while they last, then of fewer.
template <int R, int P>
void multiplyRows(const Room& room, Inputs inputs, size_t row, size_t rows, const Outputs<P>& to) {
  for (; row + R <= rows; row += R) multiplyTile<R, P>(room, inputs, row, to);
  if constexpr (R > 1)
    if (row < rows) multiplyRows<R / 2, P>(room, inputs, row, rows, to);
}

// P panels from `panel` on, of the last of which `count` outputs exist.
template <int P>
void multiplyPanels(const MatmulBlock& block, Inputs inputs, size_t panel, size_t count, const Room& room, float* at,
                    size_t stride) {
  Outputs<P> to{at, stride, {}, {}};
  for (int p = 0; p < P; p++) {
    const size_t of = panel + static_cast<size_t>(p), outputs = p + 1 == P ? count : kPanelOutputs;
    to.bias[p] = block.bias == nullptr ? zero() : loadPartial(block.bias + of * kPanelOutputs, outputs);
    withWeightType(block.type, [&](auto type) {
      constexpr WeightType T = decltype(type)::value;
      if constexpr (isFloatType(T))
        to.scale[p] = roundPanel<T>(block.panels + of * block.panelBytes, block.inputs, inputs,
                                    room.weights + static_cast<size_t>(p) * kPanelWords);
    });
  }
  multiplyRows<kRowsPerTile, P>(room, inputs, 0, block.rows, to);
}

}  // namespace

void multiplyWords(const MatmulBlock& block, uint8_t* workspace) {
  const Room room(workspace);
  const size_t panels = block.outputs / kPanelOutputs, rest = block.outputs % kPanelOutputs;
  for (size_t first = 0; first < block.inputs; first += kWordInputs) {
    const size_t left = block.inputs - first, count = left < kWordInputs ? left : kWordInputs;
    const Inputs inputs{first, count, {first == 0, count == left}};
    roundRows(block, inputs, room);
    size_t panel = 0;
    for (; panel + kPanelsPerTile <= panels; panel += kPanelsPerTile)
      multiplyPanels<kPanelsPerTile>(block, inputs, panel, kPanelOutputs, room, block.output + panel * kPanelOutputs,
                                     block.outputStride);
    if constexpr (kPanelsPerTile > 1)
      for (; panel < panels; panel++)
        multiplyPanels<1>(block, inputs, panel, kPanelOutputs, room, block.output + panel * kPanelOutputs,
                          block.outputStride);
    if (rest == 0) continue;
    multiplyPanels<1>(block, inputs, panels, rest, room, room.partial, kPanelOutputs);
    for (size_t row = 0; inputs.ends.last && row < block.rows; row++)
      storePartial(block.output + row * block.outputStride + panels * kPanelOutputs,
                   load(room.partial + row * kPanelOutputs), rest);
  }
}

}  // namespace spillway::SPILLWAY_ISA
