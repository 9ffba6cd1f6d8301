// One output's weights as floats, from its panel: portable.
#include <string.h>

#include <cmath>

#include "Matmul.h"
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

struct ScaleAndOffset {
  float scale;
  float offset;
};

ScaleAndOffset scaleAt(ScaleKind kind, const uint8_t* scales, size_t output, size_t k) {
  const size_t group = k / kGroupInputs;
  const uint8_t* at = scales + group / groupsPerScales(kind) * scaleStride(kind);
  if (kind == ScaleKind::Exponent) return {std::ldexp(1.0f, at[output] - 128), 0};
  const float first = halfToFloat(halfAt(at, output));
  if (kind == ScaleKind::Half || kind == ScaleKind::Row) return {first, 0};
  if (kind == ScaleKind::SuperSigned || kind == ScaleKind::SuperGroups) {
    const size_t index = kind == ScaleKind::SuperSigned ? k / 16 % 16 : group % kSuperGroups;
    const uint8_t scale = at[32 + kPanelOutputs * index + output];
    return {first * static_cast<float>(static_cast<int8_t>(scale)), 0};
  }
  const float second = halfToFloat(halfAt(at + 32, output));
  if (kind == ScaleKind::HalfOffset || kind == ScaleKind::PairOffset) return {first, second};
  if (kind == ScaleKind::SuperNibbles) {
    const uint8_t both = at[64 + kPanelOutputs * (k / 16 % 16) + output];
    return {first * static_cast<float>(both & 15), -(second * static_cast<float>(both >> 4))};
  }
  const uint8_t* pair = at + 64 + 2 * kPanelOutputs * (group % kSuperGroups);
  return {first * static_cast<float>(pair[output]), -(second * static_cast<float>(pair[kPanelOutputs + output]))};
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
  const size_t half = kGroupInputs / 2;  // scales never change within one
  for (size_t k = 0; k < matrix.inputs; k += half) {
    const ScaleAndOffset by = scaleAt(format.kind, scales, output, k);
    const uint8_t* group = panel + k / kGroupInputs * static_cast<size_t>(format.bits) * kVectorBytes;
    const auto each = [&](auto storedAt) {
      for (size_t i = k; i < k + half; i++) {
        const int stored = storedAt(i % kGroupInputs);
        const int number = format.codebook == nullptr ? stored : format.codebook->numbers[stored];
        const float scaled = by.scale * static_cast<float>(number - format.zero);
        values[i] = format.offset ? scaled + by.offset : scaled;
      }
    };
    if (format.bits == 8)
      each([&](size_t i) { return valueAt(8, group, output, i); });
    else
      each([&](size_t i) { return valueAt(format.bits, group, output, i); });
  }
}

}  // namespace spillway
