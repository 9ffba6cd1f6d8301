// How fast a layer forgets what it remembers.
#pragma once
#include <cmath>

#include "../../model/DecoderSpec.h"

namespace spillway {

// Of a head, from what is stored of it: exp(-decayRate x time step) of its state is left after a token.
inline float decayRate(const RecurrentSpec& spec, float stored) {
  return spec.negatedRates ? -stored : std::exp(stored);
}

inline float logistic(float x) { return 1.0f / (1.0f + std::exp(-x)); }

inline float softplus(float x) { return x > 20.0f ? x : std::log1p(std::exp(x)); }

}  // namespace spillway
