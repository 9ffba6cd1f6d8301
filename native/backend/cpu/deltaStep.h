// One token's step of the gated delta rule.
#pragma once
#include <cstddef>

namespace spillway {

// Of one head (Yang et al. 2024). state, [keyDim, valueDim]: it is forgotten by `decay`, or each of its rows by one of
// `decays` where these are given (Kimi Linear), what it holds for the key
// moves towards the value by `beta`, and output is what it holds for the query then. Sums run over keyDim in order, one
// product rounded after the other, so that it is the same on every processor.
void deltaStep(float* state, const float* query, const float* key, const float* value, float decay, float beta,
               size_t keyDim, size_t valueDim, float* output, const float* decays = nullptr);

}  // namespace spillway
