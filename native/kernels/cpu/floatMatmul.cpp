// Float activations times weights of any type: panels are unpacked to floats in the first-level cache, then multiplied
// in order of inputs.
#include "dot.h"
#include "matmulIsa.h"

namespace spillway::SPILLWAY_ISA {
namespace {

#if SPILLWAY_ISA_LEVEL == 2
constexpr int kRowsPerTile = 8, kPanelsPerTile = 2;
#elif SPILLWAY_ISA_LEVEL == 1 || SPILLWAY_ISA_LEVEL == 3
constexpr int kRowsPerTile = 6, kPanelsPerTile = 1;
#else
constexpr int kRowsPerTile = 4, kPanelsPerTile = 1;
#endif
constexpr size_t kInputsPerBlock = 192;  // whole groups of every type
constexpr size_t kAccumulatorStride = 16 * kPanelsPerTile;
constexpr size_t kAccumulatorBytes = kMatmulBlockRows * kAccumulatorStride * sizeof(float);
static_assert(kAccumulatorBytes + kPanelsPerTile * kInputsPerBlock * 16 * sizeof(float) <= kMatmulWorkspaceBytes,
              "the workspace is large enough");

template <WeightType T>
void unpackGroups(const uint8_t* panel, size_t inputs, size_t firstInput, size_t count, float* floats) {
  constexpr PanelFormat format = panelFormat(T);
  const f32x16 zeroPoint = set1(static_cast<float>(format.zero));
  for (size_t k = 0; k < count; k += kGroupInputs) {
    const size_t group = (firstInput + k) / kGroupInputs;
    const uint8_t* values = panel + group * format.bits * kVectorBytes;
    for (int v = 0; v < 8; v++) {
      const Bytes bytes = numbersOf<T>(values, v);
      const GroupScale by = loadScale<format.kind>(panel + scalesAt(format, inputs), group, v / 4);
      for (int i = 0; i < 4; i++) {
        const f32x16 q = byteToFloat(bytes, i);
        // Products of scales and values are exact in float32, so that fma rounds as an addition would.
        store(floats + (k + static_cast<size_t>(4 * v + i)) * 16,
              format.offset ? fma(by.scale, q, by.offset) : mul(by.scale, sub(q, zeroPoint)));
      }
    }
  }
}

template <WeightType T>
void unpackHalves(const uint8_t* panel, size_t firstInput, size_t count, float* floats) {
  const auto halves = reinterpret_cast<const uint16_t*>(panel) + firstInput * 16;
  for (size_t k = 0; k < count; k++)
    store(floats + k * 16, T == WeightType::F16 ? loadHalf(halves + k * 16) : loadBfloat16(halves + k * 16));
}

// Inputs firstInput .. firstInput + count of a panel as floats [count][16]: in `buffer`, or where they are. Not
// inlined: the caller's loops keep their registers.
__attribute__((noinline)) const float* unpackPanel(const MatmulBlock& block, const uint8_t* panel, size_t firstInput,
                                                   size_t count, float* buffer) {
  if (block.type == WeightType::F32) return reinterpret_cast<const float*>(panel) + firstInput * 16;
  withWeightType(block.type, [&](auto type) {
    constexpr WeightType T = decltype(type)::value;
    if constexpr (isQuantised(T))
      unpackGroups<T>(panel, block.inputs, firstInput, count, buffer);
    else
      unpackHalves<T>(panel, firstInput, count, buffer);
  });
  return buffer;
}

template <int R, int P>
void multiplyTile(const float* const (&weights)[kPanelsPerTile], size_t count, const float* values, size_t stride,
                  float* accumulators) {
  f32x16 total[R][P];
  SPILLWAY_UNROLL(8)
  for (int r = 0; r < R; r++) SPILLWAY_UNROLL(2)
  for (int p = 0; p < P; p++) total[r][p] = load(accumulators + r * kAccumulatorStride + p * 16);
  for (size_t k = 0; k < count; k++) {
    f32x16 column[P];
    SPILLWAY_UNROLL(2)
    for (int p = 0; p < P; p++) column[p] = load(weights[p] + k * 16);
    SPILLWAY_UNROLL(8)
    for (int r = 0; r < R; r++) {
      const f32x16 value = set1(values[static_cast<size_t>(r) * stride + k]);
      SPILLWAY_UNROLL(2)
      for (int p = 0; p < P; p++) total[r][p] = fma(column[p], value, total[r][p]);
    }
  }
  SPILLWAY_UNROLL(8)
  for (int r = 0; r < R; r++) SPILLWAY_UNROLL(2)
  for (int p = 0; p < P; p++) store(accumulators + r * kAccumulatorStride + p * 16, total[r][p]);
}

// Tiles of R rows while they last, then of fewer.
template <int R, int P>
void multiplyRows(const float* const (&weights)[kPanelsPerTile], size_t count, const float* values, size_t stride,
                  size_t rows, float* accumulators) {
  for (; rows >= R; rows -= R) {
    multiplyTile<R, P>(weights, count, values, stride, accumulators);
    values += R * stride;
    accumulators += R * kAccumulatorStride;
  }
  if constexpr (R > 1)
    if (rows > 0) multiplyRows<R / 2, P>(weights, count, values, stride, rows, accumulators);
}

// How many outputs there are in the panel that begins with `output`.
size_t outputsOf(const MatmulBlock& block, size_t output) {
  return block.outputs - output < kPanelOutputs ? block.outputs - output : kPanelOutputs;
}

template <int P>
void multiplyPanels(const MatmulBlock& block, size_t panel, uint8_t* workspace) {
  float* accumulators = reinterpret_cast<float*>(workspace);
  float* buffer = reinterpret_cast<float*>(workspace + kAccumulatorBytes);
  for (int p = 0; p < P; p++) {
    const size_t output = (panel + static_cast<size_t>(p)) * kPanelOutputs;
    const f32x16 start = block.bias == nullptr ? zero() : loadPartial(block.bias + output, outputsOf(block, output));
    for (size_t row = 0; row < block.rows; row++)
      store(accumulators + row * kAccumulatorStride + static_cast<size_t>(p) * 16, start);
  }
  for (size_t k = 0; k < block.inputs; k += kInputsPerBlock) {
    const size_t count = block.inputs - k < kInputsPerBlock ? block.inputs - k : kInputsPerBlock;
    const float* weights[kPanelsPerTile] = {};
    for (int p = 0; p < P; p++)
      weights[p] = unpackPanel(block, block.panels + (panel + static_cast<size_t>(p)) * block.panelBytes, k, count,
                               buffer + static_cast<size_t>(p) * kInputsPerBlock * 16);
    multiplyRows<kRowsPerTile, P>(weights, count, block.values + k, block.valueStride, block.rows, accumulators);
  }
  for (int p = 0; p < P; p++) {
    const size_t output = (panel + static_cast<size_t>(p)) * kPanelOutputs;
    for (size_t row = 0; row < block.rows; row++)
      storePartial(block.output + row * block.outputStride + output,
                   load(accumulators + row * kAccumulatorStride + static_cast<size_t>(p) * 16),
                   outputsOf(block, output));
  }
}

}  // namespace

void multiplyFloat(const MatmulBlock& block, uint8_t* workspace) {
  const size_t panels = (block.outputs + kPanelOutputs - 1) / kPanelOutputs;
  size_t panel = 0;
  for (; panel + kPanelsPerTile <= panels; panel += kPanelsPerTile)
    multiplyPanels<kPanelsPerTile>(block, panel, workspace);
  if constexpr (kPanelsPerTile > 1)
    for (; panel < panels; panel++) multiplyPanels<1>(block, panel, workspace);
}

}  // namespace spillway::SPILLWAY_ISA
