// Steps of the gated delta rule.
#pragma once
#include <cstddef>

namespace spillway {

// What consecutive tokens bring to a block of one head's state. It is `stride` floats from what is of one token to what
// is of the next, and `outputStride` from output to output.
struct DeltaTokens {
  size_t count, stride;
  const float *queries, *keys;  // keyDim of a token
  const float* values;          // of the block's columns, as outputs are
  const float* betas;           // one of a token
  const float* decays;          // one of a token or, `byKey`, keyDim
  bool byKey;
  float* outputs;
  size_t outputStride;
};

// Of a block of a state (stateBlocks.h), [keyDim, columns], token by token (Yang et al. 2024): it is forgotten by the
// token's decay, or each of its rows by one of them (Kimi Linear), what it holds for the key moves towards the value by
// beta, and the output is what it holds for the query then. Sums run over keyDim in order, one product rounded after
// the other, so that it is the same on every processor.
void deltaSteps(float* state, size_t keyDim, size_t columns, const DeltaTokens& tokens);

}  // namespace spillway
