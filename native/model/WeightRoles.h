// Which weights a decoder needs, may have, and has no use for, and what shape each must have.
#pragma once
#include "Weights.h"

namespace spillway {

enum class Presence { Unused, Optional, Required };

struct WeightShape {
  uint32_t rows;
  uint32_t columns;  // 1 for vectors
};

template <typename Owner>
struct WeightRole {
  const char* name;
  StoredMatrix Owner::* matrix;  // one of these two
  const float* Owner::* vector;
  Presence (*presence)(const DecoderSpec&, const LayerSpec&);  // global weights are of a layer of no kind
  WeightShape (*shape)(const DecoderSpec&, const LayerSpec&);
  bool moreRows = false;  // `rows` is a least number
};

// In the order of their use.
const std::vector<WeightRole<GlobalWeights>>& globalRoles();
const std::vector<WeightRole<LayerWeights>>& layerRoles();
const std::vector<WeightRole<ExpertWeights>>& expertRoles();  // names follow "expert.N."

}  // namespace spillway
