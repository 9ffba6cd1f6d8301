// Which weights a decoder needs, may have, and has no use for, and what shape each must have.
#pragma once
#include "Weights.h"

namespace spillway {

enum class Presence { Unused, Optional, Required };

struct WeightShape {
  uint32_t rows;
  uint32_t columns;       // 1 for vectors
  bool moreRows = false;  // `rows` is a least number
};

template <typename Owner>
struct WeightRole {
  const char* name;
  StoredMatrix Owner::* matrix;  // one of these two
  const float* Owner::* vector;
  Presence presence;
  WeightShape shape;
};

// Of a decoder, or of one of its layers, in the order of their use (WeightRoles.def).
std::vector<WeightRole<GlobalWeights>> globalRoles(const DecoderSpec& spec);
std::vector<WeightRole<LayerWeights>> layerRoles(const DecoderSpec& spec, const LayerSpec& layer);
// Names follow "expert.N.".
std::vector<WeightRole<ExpertWeights>> expertRoles(const DecoderSpec& spec, const LayerSpec& layer);

}  // namespace spillway
