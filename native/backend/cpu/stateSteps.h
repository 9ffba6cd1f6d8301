// Steps of a state space.
#pragma once
#include <cstddef>

namespace spillway {

// What consecutive tokens bring to a block of one head's state. It is `stride` floats from what is of one token to what
// is of the next, `factorStride` of its step and decay, and `outputStride` from output to output.
struct StateTokens {
  size_t count, stride;
  const float* inputs;          // of the block's columns, as outputs are
  const float *written, *read;  // stateDim of a token
  const float *steps, *decays;  // one of a token
  size_t factorStride;
  float* outputs;
  size_t outputStride;
};

// Of a block of a state (stateBlocks.h), [stateDim, columns], token by token (Mamba-2, Dao and Gu 2024): the token's
// decay of it is left, its input times its step is added for each of the state's elements by `written`, and the output
// is what it holds by `read`. Sums run over stateDim in order, one product rounded after the other, so that it is the
// same on every processor.
void stateSteps(float* state, size_t stateDim, size_t columns, const StateTokens& tokens);

}  // namespace spillway
