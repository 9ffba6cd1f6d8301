// Which weights a decoder needs, may have, and has no use for, and what shape each must have.
#pragma once
#include "Weights.h"

namespace spillway {

enum class Presence { Unused, Optional, Required };

struct WeightShape {
  uint32_t rows;
  uint32_t columns;  // 1 for vectors
};

constexpr uint8_t kAnyMixer = 0xFF;
constexpr uint8_t onlyOf(Mixer mixer) { return static_cast<uint8_t>(1u << static_cast<uint8_t>(mixer)); }

template <typename Owner>
struct WeightRole {
  const char* name;
  StoredMatrix Owner::* matrix;  // one of these two
  const float* Owner::* vector;
  Presence (*presence)(const DecoderSpec&);
  WeightShape (*shape)(const DecoderSpec&);
  bool moreRows = false;       // `rows` is a least number
  uint8_t mixers = kAnyMixer;  // of layers with one of these alone: a bit each
};

// In the order of their use.
const std::vector<WeightRole<GlobalWeights>>& globalRoles();
const std::vector<WeightRole<LayerWeights>>& layerRoles();
const std::vector<WeightRole<ExpertWeights>>& expertRoles();  // names follow "expert.N."

}  // namespace spillway
