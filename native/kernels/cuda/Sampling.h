// From logits to tokens on the device. Rules and order are those of kernels/cpu/Sampling.h, and so are the random
// numbers; probabilities are counted in fixed point (multiples of 2^-40 of the best token's), so that sums have no
// order. Both sides pick the same token but where a random number or a bound falls within rounding of the edge between
// two.
#pragma once
#include "../cpu/Sampling.h"
#include "gpu.h"

namespace spillway::cuda {

// One row. All pointers are device memory.
struct SamplingRow {
  SamplingParameters parameters;
  const float* logits;  // [vocabulary]; left as they are
  const int32_t* history;
  uint32_t historyCount;
  uint32_t position;
};

// tokens: [rows], kNotFinite where none can be chosen; logprobs: [rows] under the model's own distribution, or null.
// workspace: [rows, vocabulary] floats.
void sampleTokens(cudaStream_t stream, const SamplingRow* rows, size_t count, size_t vocabulary, float* workspace,
                  int32_t* tokens, float* logprobs);

}  // namespace spillway::cuda
