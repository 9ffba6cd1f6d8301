// From one row of logits to one token. Pure; nothing here depends on other rows.
#pragma once
#include <cstddef>
#include <cstdint>

#include "Kernels.h"

namespace spillway {

struct SamplingParameters {
  float temperature = 0;  // 0: greedy
  float topP = 1;
  uint32_t topK = 0;
  float minP = 0;
  float repetitionPenalty = 1;
  uint32_t seed = 0;
};

struct SampledToken {
  int32_t token;
  float logprob;  // under the model's own distribution: before penalty, temperature and truncation
};

// Order as transformers: repetition penalty (over all tokens of the row so far, prompt included; each once), temperature, top-k, top-p, min-p.
// Greedy: the largest penalised logit, the lowest id at a tie. The random number is a counter-based hash (Philox 4x32-10) of seed and position.
// logits: [vocabulary], may be overwritten. workspace: vocabulary entries of 8 bytes. NaN logits: treated as -infinity; all of them: token 0.
SampledToken sampleToken(const Kernels& kernels, const SamplingParameters& parameters, float* logits, size_t vocabulary, const int32_t* history,
                         size_t historyCount, uint32_t position, bool wantLogprob, void* workspace);

// log softmax of one entry.
float logProbability(const Kernels& kernels, const float* logits, size_t vocabulary, int32_t token);

// The `count` most likely tokens, best first (lowest id at a tie), with their log-probabilities.
void topLogProbabilities(const Kernels& kernels, const float* logits, size_t vocabulary, size_t count, int32_t* tokens, float* logprobs, void* workspace);

}  // namespace spillway
