// One output's weights as floats, from its panel or from its row of a file: portable.
#include <string.h>

#include <cmath>

#include "Matmul.h"
#include "fileGroups.h"
#include "floatFormats.h"
#include "panelLayout.h"

namespace spillway {
namespace {

uint16_t halfAt(const uint8_t* at, size_t index) {
  uint16_t half;
  memcpy(&half, at + 2 * index, 2);
  return half;
}

// The stored number of input k of a group.
int valueAt(int bits, const uint8_t* group, size_t output, size_t k) {
  const size_t v = k / 4;
  const size_t byte = 4 * output + k % 4;
  const auto plane = [&](size_t vector) { return static_cast<unsigned>(group[vector * kVectorBytes + byte]); };
  if (bits == 8) return static_cast<int>(plane(v));
  if (bits <= 3) {
    const unsigned low = (plane(v / 4) >> (2 * (v % 4))) & 3u;
    return static_cast<int>(bits == 2 ? low : low | (((plane(2) >> v) & 1u) << 2));
  }
  const unsigned low = (plane(v / 2) >> (4 * (v % 2))) & 15u;
  if (bits == 5) return static_cast<int>(low | (((plane(4) >> v) & 1u) << 4));
  if (bits == 6) return static_cast<int>(low | (((plane(4 + v / 4) >> (2 * (v % 4))) & 3u) << 4));
  return static_cast<int>(low);
}

// What the scale and the offset of 16 inputs are made of (panelLayout.h): halves, or an exponent, and of K types the
// numbers that these are multiplied by.
struct ScaleNumbers {
  uint16_t scale, offset = 0;
  uint8_t timesScale = 0, timesOffset = 0;
};

// As panels have them, of input k and the 15 after it.
ScaleNumbers scaleInPanel(ScaleKind kind, const uint8_t* scales, size_t output, size_t k) {
  const size_t group = k / kGroupInputs;
  const uint8_t* at = scales + group / groupsPerScales(kind) * scaleStride(kind);
  if (kind == ScaleKind::Exponent) return {at[output]};
  const uint16_t scale = halfAt(at, output);
  if (kind == ScaleKind::Half || kind == ScaleKind::Row) return {scale};
  if (kind == ScaleKind::SuperSigned || kind == ScaleKind::SuperGroups)
    return {scale, 0,
            at[32 + kPanelOutputs * (kind == ScaleKind::SuperSigned ? k / 16 % 16 : group % kSuperGroups) + output]};
  const uint16_t offset = halfAt(at + 32, output);
  if (kind == ScaleKind::HalfOffset || kind == ScaleKind::PairOffset) return {scale, offset};
  if (kind == ScaleKind::SuperNibbles) {
    const uint8_t both = at[64 + kPanelOutputs * (k / 16 % 16) + output];
    return {scale, offset, static_cast<uint8_t>(both & 15), static_cast<uint8_t>(both >> 4)};
  }
  const uint8_t* pair = at + 64 + 2 * kPanelOutputs * (group % kSuperGroups);
  return {scale, offset, pair[output], pair[kPanelOutputs + output]};
}

// As a file's block has them, of its input k and the 15 after it.
ScaleNumbers scaleInFile(ScaleKind kind, const FileBlock& block, size_t k) {
  const uint8_t half = block.scales[k / 16], group = block.scales[k / kGroupInputs];
  switch (kind) {
    case ScaleKind::SuperSigned: return {block.scale, 0, half};
    case ScaleKind::SuperGroups: return {block.scale, 0, group};
    case ScaleKind::SuperNibbles:
      return {block.scale, block.offset, static_cast<uint8_t>(half & 15), static_cast<uint8_t>(half >> 4)};
    case ScaleKind::SuperMinimum: return {block.scale, block.offset, group, block.scales[8 + k / kGroupInputs]};
    default: return {block.scale, block.offset};
  }
}

struct ScaleAndOffset {
  float scale;
  float offset;
};

ScaleAndOffset scaleOf(ScaleKind kind, ScaleNumbers numbers) {
  if (kind == ScaleKind::Exponent) return {std::ldexp(1.0f, numbers.scale - 128), 0};
  const float scale = halfToFloat(numbers.scale), offset = halfToFloat(numbers.offset);
  if (!isSuper(kind)) return {scale, offset};
  if (kind == ScaleKind::SuperSigned || kind == ScaleKind::SuperGroups)
    return {scale * static_cast<float>(static_cast<int8_t>(numbers.timesScale)), 0};
  return {scale * static_cast<float>(numbers.timesScale), -(offset * static_cast<float>(numbers.timesOffset))};
}

// The weights of 16 inputs, whose stored numbers are storedAt(0) to storedAt(15). Scales never change within them.
constexpr size_t kTogether = kGroupInputs / 2;
template <typename StoredAt>
void unpackSome(const PanelFormat& format, ScaleNumbers numbers, StoredAt storedAt, float* values) {
  const ScaleAndOffset by = scaleOf(format.kind, numbers);
  const auto each = [&](auto numberOf) {
    for (size_t i = 0; i < kTogether; i++) {
      const float scaled = by.scale * static_cast<float>(numberOf(storedAt(i)) - format.zero);
      values[i] = format.offset ? scaled + by.offset : scaled;
    }
  };
  if (format.codebook == nullptr) return each([](int stored) { return stored; });
  each([&](int stored) { return int{format.codebook->numbers[stored]}; });
}

// The type is looked at once a row: every token of a prompt is a row or more.
void unpackFloats(const WeightMatrix& matrix, const uint8_t* panel, size_t output, float* values) {
  const auto each = [&](auto valueOf) {
    for (size_t k = 0; k < matrix.inputs; k++) values[k] = valueOf(k * kPanelOutputs + output);
  };
  if (matrix.type == WeightType::F16) return each([panel](size_t index) { return halfToFloat(halfAt(panel, index)); });
  if (matrix.type == WeightType::BF16)
    return each([panel](size_t index) { return bfloat16ToFloat(halfAt(panel, index)); });
  each([panel](size_t index) {
    float value;
    memcpy(&value, panel + 4 * index, 4);
    return value;
  });
}

}  // namespace

void unpackRow(const WeightMatrix& matrix, size_t output, float* values) {
  const uint8_t* panel = matrix.panels + output / kPanelOutputs * panelBytes(matrix.type, matrix.inputs);
  output %= kPanelOutputs;
  if (!isQuantised(matrix.type)) return unpackFloats(matrix, panel, output, values);
  const PanelFormat format = panelFormat(matrix.type);
  const uint8_t* scales = panel + scalesAt(format, matrix.inputs);
  for (size_t k = 0; k < matrix.inputs; k += kTogether) {
    const uint8_t* group = panel + k / kGroupInputs * static_cast<size_t>(format.bits) * kVectorBytes;
    const ScaleNumbers numbers = scaleInPanel(format.kind, scales, output, k);
    const size_t first = k % kGroupInputs;
    if (format.bits == 8)
      unpackSome(format, numbers, [&](size_t i) { return valueAt(8, group, output, first + i); }, values + k);
    else
      unpackSome(format, numbers, [&](size_t i) { return valueAt(format.bits, group, output, first + i); }, values + k);
  }
}

void unpackFileRow(WeightType type, const uint8_t* row, size_t inputs, float* values) {
  const size_t elements = weightBlockElements(type), bytes = weightBlockBytes(type);
  const auto each = [&](auto valueOf) {
    for (size_t k = 0; k < inputs; k++) values[k] = valueOf(row + k * bytes);
  };
  if (type == WeightType::F16) return each([](const uint8_t* at) { return halfToFloat(halfAt(at, 0)); });
  if (type == WeightType::BF16) return each([](const uint8_t* at) { return bfloat16ToFloat(halfAt(at, 0)); });
  if (!isQuantised(type)) {
    memcpy(values, row, inputs * sizeof(float));
    return;
  }
  const PanelFormat format = panelFormat(type);
  FileBlock block{};
  for (size_t k = 0; k < inputs; k += elements, row += bytes) {
    readFileBlock(type, row, block);
    for (size_t at = 0; at < elements; at += kTogether)
      unpackSome(
          format, scaleInFile(format.kind, block, at), [&](size_t i) { return int{block.values[at + i]}; },
          values + k + at);
  }
}

}  // namespace spillway
