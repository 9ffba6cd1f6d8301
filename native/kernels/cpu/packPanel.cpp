// From a file's rows to panels: portable, on any thread.
#include <string.h>

#include "Matmul.h"
#include "fileGroups.h"

namespace spillway {
namespace {

// The eight vectors of one group: byte 4 * output + i of vector v is input 4 v + i.
struct GroupVectors {
  uint8_t bytes[8][kVectorBytes];
};

void joinNibbles(const GroupVectors& group, uint8_t* packed) {
  for (size_t v = 0; v < 4; v++)
    for (size_t i = 0; i < kVectorBytes; i++)
      packed[v * kVectorBytes + i] =
          static_cast<uint8_t>((group.bytes[2 * v][i] & 15) | ((group.bytes[2 * v + 1][i] & 15) << 4));
}

// Bits `from` and `from + 1` of every value.
void joinPairs(const GroupVectors& group, int from, uint8_t* packed) {
  for (size_t plane = 0; plane < 2; plane++)
    for (size_t i = 0; i < kVectorBytes; i++) {
      unsigned byte = 0;
      for (size_t v = 0; v < 4; v++) byte |= ((group.bytes[4 * plane + v][i] >> from) & 3u) << (2 * v);
      packed[plane * kVectorBytes + i] = static_cast<uint8_t>(byte);
    }
}

void joinBits(const GroupVectors& group, int from, uint8_t* packed) {
  for (size_t i = 0; i < kVectorBytes; i++) {
    unsigned byte = 0;
    for (size_t v = 0; v < 8; v++) byte |= ((group.bytes[v][i] >> from) & 1u) << v;
    packed[i] = static_cast<uint8_t>(byte);
  }
}

void packGroup(int bits, const GroupVectors& group, uint8_t* packed) {
  switch (bits) {
    case 8: memcpy(packed, group.bytes, sizeof group.bytes); return;
    case 4: joinNibbles(group, packed); return;
    case 5:
      joinNibbles(group, packed);
      joinBits(group, 4, packed + 4 * kVectorBytes);
      return;
    case 6:
      joinNibbles(group, packed);
      joinPairs(group, 4, packed + 4 * kVectorBytes);
      return;
    case 2: joinPairs(group, 0, packed); return;
    default:  // 3
      joinPairs(group, 0, packed);
      joinBits(group, 2, packed + 2 * kVectorBytes);
      return;
  }
}

void packHalf(uint8_t* at, size_t output, uint16_t half) { memcpy(at + 2 * output, &half, 2); }

// Scales of one block (a group, or eight of a K type) of one output.
void packScales(ScaleKind kind, const FileBlock& block, size_t output, uint8_t* at) {
  if (kind == ScaleKind::Exponent) {
    at[output] = static_cast<uint8_t>(block.scale);
    return;
  }
  packHalf(at, output, block.scale);
  if (kind == ScaleKind::Half || kind == ScaleKind::Row) return;
  if (kind == ScaleKind::SuperSigned || kind == ScaleKind::SuperGroups) {
    for (size_t i = 0; i < (kind == ScaleKind::SuperSigned ? 16 : kSuperGroups); i++)
      at[32 + kPanelOutputs * i + output] = block.scales[i];
    return;
  }
  packHalf(at + 32, output, block.offset);
  if (kind == ScaleKind::SuperNibbles)
    for (size_t i = 0; i < 16; i++) at[64 + kPanelOutputs * i + output] = block.scales[i];
  if (kind == ScaleKind::SuperMinimum)
    for (size_t i = 0; i < 16; i++)  // scale and minimum of a group side by side
      at[64 + kPanelOutputs * i + output] = block.scales[i / 2 + (i % 2) * 8];
}

template <typename Element>
void packFloats(size_t inputs, const uint8_t* const rows[kPanelOutputs], uint8_t* panel) {
  for (size_t output = 0; output < kPanelOutputs; output++) {
    if (rows[output] == nullptr) continue;
    for (size_t k = 0; k < inputs; k++)
      memcpy(panel + (k * kPanelOutputs + output) * sizeof(Element), rows[output] + k * sizeof(Element),
             sizeof(Element));
  }
}

}  // namespace

size_t panelBytes(WeightType type, size_t inputs) {
  const PanelFormat format = panelFormat(type);
  const size_t bytes = isQuantised(type) ? scalesAt(format, inputs) + scalesBytes(format, inputs)
                                         : inputs * kPanelOutputs * weightBlockBytes(type);
  return (bytes + kVectorBytes - 1) / kVectorBytes * kVectorBytes;
}

size_t packedBytes(WeightType type, size_t outputs, size_t inputs) {
  return (outputs + kPanelOutputs - 1) / kPanelOutputs * panelBytes(type, inputs);
}

void packPanel(WeightType type, size_t inputs, const uint8_t* const rows[kPanelOutputs], uint8_t* panel) {
  if (!isQuantised(type)) {
    memset(panel, 0, panelBytes(type, inputs));
    return weightBlockBytes(type) == 4 ? packFloats<uint32_t>(inputs, rows, panel)
                                       : packFloats<uint16_t>(inputs, rows, panel);
  }
  const PanelFormat format = panelFormat(type);
  const size_t blockInputs = weightBlockElements(type);
  const size_t blockGroups = blockInputs / kGroupInputs;
  uint8_t* scales = panel + scalesAt(format, inputs);
  memset(scales, 0,
         panelBytes(type, inputs) - scalesAt(format, inputs));  // an absent row is zeros because its scales are
  FileBlock block;
  GroupVectors vectors[kSuperGroups];
  for (size_t b = 0; b < inputs / blockInputs; b++) {
    for (size_t output = 0; output < kPanelOutputs; output++) {
      if (rows[output] == nullptr) {
        memset(block.values, 0, sizeof block.values);
      } else {
        readFileBlock(type, rows[output] + b * weightBlockBytes(type), block);
        packScales(format.kind, block, output, scales + b * scaleStride(format.kind));
      }
      for (size_t k = 0; k < blockInputs; k += 4)
        memcpy(&vectors[k / kGroupInputs].bytes[k % kGroupInputs / 4][4 * output], block.values + k, 4);
    }
    for (size_t g = 0; g < blockGroups; g++)
      packGroup(format.bits, vectors[g],
                panel + (b * blockGroups + g) * static_cast<size_t>(format.bits) * kVectorBytes);
  }
}

}  // namespace spillway
