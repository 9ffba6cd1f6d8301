// Shapes and types of matrix products, and random weights for them: shared by tests and benchmark.
#pragma once
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "../../kernels/cpu/Matmul.h"
#include "../../kernels/cpu/floatFormats.h"

namespace spillway::cases {

struct MatmulCase {
  const char* name;
  WeightType type;
  uint32_t outputs;
  uint32_t inputs;
  bool bias;
};

// The shapes of SmolLM2-135M, then one of every type: outputs no multiple of 16 (and panels left over from every tile),
// for float types inputs no multiple of 32.
constexpr MatmulCase kMatmulCases[] = {
    {"attention", WeightType::Q4_1, 576, 576, false},
    {"feed-forward up", WeightType::Q4_1, 1536, 576, false},
    {"feed-forward down", WeightType::Q4_1, 576, 1536, false},
    {"head", WeightType::Q8_0, 49152, 576, false},
    {"Q4_0", WeightType::Q4_0, 106, 1568, true},
    {"Q4_1", WeightType::Q4_1, 47, 1600, true},
    {"Q4_G64", WeightType::Q4_G64, 90, 832, true},
    {"Q5_0", WeightType::Q5_0, 122, 800, false},
    {"Q5_1", WeightType::Q5_1, 33, 32, true},
    {"Q8_0", WeightType::Q8_0, 138, 896, true},
    {"Q2_K", WeightType::Q2_K, 106, 1024, false},
    {"Q3_K", WeightType::Q3_K, 122, 1024, true},
    {"Q4_K", WeightType::Q4_K, 138, 1024, false},
    {"Q5_K", WeightType::Q5_K, 15, 768, true},
    {"Q6_K", WeightType::Q6_K, 106, 1792, false},
    {"IQ4_NL", WeightType::IQ4_NL, 106, 832, true},
    {"IQ4_XS", WeightType::IQ4_XS, 122, 1024, false},
    {"MXFP4", WeightType::MXFP4, 106, 864, true},
    {"Q8_R", WeightType::Q8_R, 186, 1568, true},
    {"F32", WeightType::F32, 122, 577, true},
    {"F16", WeightType::F16, 138, 1000, false},
    {"BF16", WeightType::BF16, 17, 193, true},
    {"F32, one input", WeightType::F32, 3, 1, true},
};

// Where a model's time goes, for the benchmark: SmolLM2-135M's matrices, and those of a model of 7 billion weights.
struct MatmulShape {
  const char* name;
  uint32_t outputs;
  uint32_t inputs;
};
constexpr MatmulShape kModelShapes[] = {
    {"135M attention", 576, 576}, {"135M up", 1536, 576}, {"135M down", 576, 1536}, {"135M head", 49152, 576},
    {"7B attention", 4096, 4096}, {"7B up", 11008, 4096}, {"7B down", 4096, 11008}, {"1B up", 5632, 2048},
    {"1B down", 2048, 5632},      {"4B up", 9728, 2560},  {"4B down", 2560, 9728}};
// Those that files people download are made of, and what matrices are compressed to.
constexpr WeightType kCommonTypes[] = {WeightType::Q4_0,   WeightType::Q4_1,  WeightType::Q4_G64, WeightType::Q8_0,
                                       WeightType::Q4_K,   WeightType::Q5_K,  WeightType::Q6_K,   WeightType::IQ4_NL,
                                       WeightType::IQ4_XS, WeightType::MXFP4, WeightType::Q8_R};

struct AlignedFree {
  void operator()(uint8_t* block) const { std::free(block); }
};
using AlignedBytes = std::unique_ptr<uint8_t[], AlignedFree>;
inline AlignedBytes alignedBytes(size_t bytes) {
  return AlignedBytes(static_cast<uint8_t*>(std::aligned_alloc(64, (bytes + 63) / 64 * 64)));
}

// Where the half-precision scales of a block stand: -1 for none.
struct HalvesOfBlock {
  int first, second;
};
inline HalvesOfBlock halvesOfBlock(WeightType type) {
  switch (type) {
    case WeightType::Q4_1:
    case WeightType::Q4_G64:
    case WeightType::Q5_1:
    case WeightType::Q4_K:
    case WeightType::Q5_K: return {0, 2};
    case WeightType::Q2_K: return {80, 82};
    case WeightType::Q3_K: return {108, -1};
    case WeightType::Q6_K: return {208, -1};
    default: return {0, -1};
  }
}

// Rows as a file has them: random values under scales of either sign and of the size that trained weights have.
inline std::vector<uint8_t> randomFileRows(WeightType type, size_t outputs, size_t inputs, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<uint8_t> bytes(outputs * weightRowBytes(type, inputs));
  std::uniform_real_distribution<float> uniform(-1, 1);
  if (!isQuantised(type)) {
    for (size_t i = 0; i < outputs * inputs; i++) {
      const float value = uniform(random);
      const uint32_t bits = bitsOfFloat(value);
      const uint16_t half = type == WeightType::F16 ? floatToHalf(value) : static_cast<uint16_t>(bits >> 16);
      if (type == WeightType::F32)
        std::memcpy(&bytes[4 * i], &bits, 4);
      else
        std::memcpy(&bytes[2 * i], &half, 2);
    }
    return bytes;
  }
  for (size_t i = 0; i + 4 <= bytes.size(); i += 4) {
    const uint32_t word = random();
    std::memcpy(&bytes[i], &word, 4);
  }
  if (type == WeightType::MXFP4) {
    for (size_t at = 0; at < bytes.size(); at += weightBlockBytes(type))
      bytes[at] = static_cast<uint8_t>(117 + random() % 5);  // 2^-11 to 2^-7
    return bytes;
  }
  if (panelFormat(type).kind == ScaleKind::Row) {
    for (size_t output = 0; output < outputs; output++) {
      const uint16_t half = floatToHalf(0.01f * uniform(random));
      for (size_t at = 0; at < weightRowBytes(type, inputs); at += weightBlockBytes(type))
        std::memcpy(&bytes[output * weightRowBytes(type, inputs) + at], &half, 2);
    }
    return bytes;
  }
  const HalvesOfBlock halves = halvesOfBlock(type);
  for (size_t at = 0; at < bytes.size(); at += weightBlockBytes(type))
    for (const int offset : {halves.first, halves.second}) {
      const uint16_t half = floatToHalf(0.01f * uniform(random));
      if (offset >= 0) std::memcpy(&bytes[at + static_cast<size_t>(offset)], &half, 2);
    }
  return bytes;
}

struct PackedMatrix {
  AlignedBytes panels;
  WeightMatrix weights;
};

inline PackedMatrix packMatrix(WeightType type, uint32_t outputs, uint32_t inputs, const uint8_t* fileRows) {
  PackedMatrix matrix;
  matrix.panels = alignedBytes(packedBytes(type, outputs, inputs));
  for (size_t first = 0; first < outputs; first += kPanelOutputs) {
    const uint8_t* rows[kPanelOutputs];
    for (size_t i = 0; i < kPanelOutputs; i++)
      rows[i] = first + i < outputs ? fileRows + (first + i) * weightRowBytes(type, inputs) : nullptr;
    packPanel(type, inputs, rows, matrix.panels.get() + first / kPanelOutputs * panelBytes(type, inputs));
  }
  matrix.weights = {type, outputs, inputs, matrix.panels.get()};
  return matrix;
}

inline PackedMatrix randomMatrix(const MatmulCase& shape, uint32_t seed) {
  return packMatrix(shape.type, shape.outputs, shape.inputs,
                    randomFileRows(shape.type, shape.outputs, shape.inputs, seed).data());
}

inline std::vector<float> randomFloats(size_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  for (float& value : values) value = normal(random);
  return values;
}

}  // namespace spillway::cases
