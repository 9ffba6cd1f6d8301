// From one row of logits to one token. Pure; nothing here depends on other rows.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "Kernels.h"

namespace spillway {

struct SamplingParameters {
  float temperature = 0;  // 0: greedy
  float topP = 1;         // 1 or more: off; 0 keeps the best token only
  uint32_t topK = 0;      // 0: off
  float minP = 0;         // 0: off
  float repetitionPenalty = 1;
  uint32_t seed = 0;
};

// What else changes a row's logits before a token is chosen; the defaults change nothing.
struct LogitAdjustments {
  float presencePenalty = 0;   // taken from the logit of each token that has been generated
  float frequencyPenalty = 0;  // and this for each time that it has been
  std::vector<int32_t> biasedTokens;
  std::vector<float> biases;  // one for each of `biasedTokens`
  // Tokens that do not come before so many have been generated.
  std::vector<int32_t> endTokens;
  uint32_t minNewTokens = 0;
  // Sequences of tokens that do not come: the last one not, where the others have just been generated. None is empty.
  std::vector<std::vector<int32_t>> badWords;
};

// Instead of a token, where there is none to choose: a logit is NaN or +infinity, or all are -infinity.
constexpr int32_t kNotFinite = -1;

struct SampledToken {
  int32_t token;  // or kNotFinite
  float logprob;  // under the model's own distribution: before penalty, temperature and truncation. NaN where it was
                  // not wanted
};

// Order as vLLM and transformers: what `adjustments` forbid, biases, repetition penalty (over all tokens of the row so
// far, prompt included; each once), frequency and presence penalties (over those after the first `promptTokens`),
// temperature, top-k, top-p, min-p, each renormalised over what the one before has kept.
// - Repetition penalty: positive logits are divided by it, negative ones multiplied. Ids in the history outside the
// vocabulary are ignored.
// - top-k keeps every token that is as likely as the k-th, so ties may make it more than k.
// - top-p keeps the smallest set of most likely tokens whose probabilities reach p, at least one; of equally likely
// tokens the lowest ids.
// - min-p keeps tokens at least minP times as likely as the best one, and the best one.
// Greedy: the largest penalised logit, the lowest id at a tie. Otherwise the token at which the probabilities of what
// is kept, added up in order of ids, pass the random number: a counter-based hash (Philox 4x32-10) of seed and
// position. logits: [vocabulary]; left as they are. workspace: vocabulary entries of 8 bytes, aligned for floats. A
// logit of -infinity is a token that is never chosen. kNotFinite, with a NaN for its log-probability, where logits are
// not such that one can be chosen; a penalty that makes an infinity of a finite logit is taken as greedy would.
SampledToken sampleToken(const Kernels& kernels, const SamplingParameters& parameters, const float* logits,
                         size_t vocabulary, const int32_t* history, size_t historyCount, uint32_t position,
                         bool wantLogprob, void* workspace, const LogitAdjustments* adjustments = nullptr,
                         size_t promptTokens = 0);

// log softmax of one entry; NaN where no token can be chosen from the logits (kNotFinite).
float logProbability(const Kernels& kernels, const float* logits, size_t vocabulary, int32_t token);

// The probability of one entry among those that can come, which are above -infinity; NaN where there is no other.
float certaintyOf(const Kernels& kernels, const float* logits, size_t vocabulary, int32_t token);

// The same in two steps, where logits change in between: a pass over all of them, and one entry of those that it was
// made of.
struct LogNormaliser {  // log of the sum of exp(logits), as the two numbers that keep its precision
  float maximum = 0;
  float logSum = 0;
};
LogNormaliser normaliserOf(const Kernels& kernels, const float* logits, size_t vocabulary);
float logProbabilityOf(const LogNormaliser& normaliser, float logit);
// The same of some tokens.
void logProbabilities(const Kernels& kernels, const float* logits, size_t vocabulary, const int32_t* tokens,
                      size_t count, float* logprobs);

// The `count` most likely tokens, best first (lowest id at a tie), with their log-probabilities. count: at most the
// vocabulary. Logits: such that one can be chosen. workspace: vocabulary entries of 8 bytes, aligned for floats; null
// where count is 0.
void topLogProbabilities(const Kernels& kernels, const float* logits, size_t vocabulary, size_t count, int32_t* tokens,
                         float* logprobs, void* workspace);

}  // namespace spillway
