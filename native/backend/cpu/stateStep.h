// One token's step of a state space.
#pragma once
#include <cstddef>

namespace spillway {

// Of one head (Mamba-2, Dao and Gu 2024). state, [stateDim, headDim]: `decay` of it is left, `input` is added for each
// of the state's elements by `written`, and output is what it holds by `read`. Sums run over stateDim in order, one
// product rounded after the other, so that it is the same on every processor. written, read: [stateDim]; input and
// output: [headDim].
void stateStep(float* state, const float* input, const float* written, const float* read, float decay, size_t stateDim,
               size_t headDim, float* output);

}  // namespace spillway
