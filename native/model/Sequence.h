// A sequence that grows by sampling: what JavaScript calls a row (createRow).
#pragma once
#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "../grammar/Grammar.h"
#include "../kernels/cpu/Sampling.h"

namespace spillway {

constexpr uint32_t kAllTokens = UINT32_MAX;

// Which hidden states after the final norm make a sequence's embedding. A sequence with one is not sampled from.
enum class Pooling : uint8_t { None, Last, Mean, First, Max, WeightedMean };

struct SequenceOptions {
  std::vector<int32_t> tokens;  // at least one
  uint32_t capacityTokens = 0;
  // How many of `tokens`, from the first, are a prompt, for which attention is dense; more than there are where they
  // are only the prompt's beginning. kAllTokens: all.
  uint32_t promptTokens = kAllTokens;
  SamplingParameters sampling;
  std::shared_ptr<const LogitAdjustments> adjustments;  // null: none
  int32_t logprobs = -1;                   // alternatives reported with each token; -1: no log-probabilities at all
  std::shared_ptr<const Grammar> grammar;  // that the sampled tokens follow; null: any may come
  std::vector<int32_t>
      candidates;          // instead of the most likely alternatives these are reported, in this order; none: those
  bool certainty = false;  // how likely each token was among those that might come is reported with it
  Pooling pooling = Pooling::None;
  // From this position on tokens are of a second text, where a model tells these apart (token types).
  uint32_t secondText = kAllTokens;
  int32_t state = -1;  // where layers remember one: its number, that no other sequence has; else -1
};

struct Sequence {
  explicit Sequence(SequenceOptions&& options)
      : tokens(std::move(options.tokens)),
        promptTokens(options.promptTokens == kAllTokens ? static_cast<uint32_t>(tokens.size()) : options.promptTokens),
        capacityTokens(options.capacityTokens),
        sampling(options.sampling),
        adjustments(std::move(options.adjustments)),
        logprobs(options.candidates.empty() ? options.logprobs : static_cast<int32_t>(options.candidates.size())),
        candidates(std::move(options.candidates)),
        certainty(options.certainty),
        pooling(options.pooling),
        secondText(options.secondText),
        state(options.state),
        grammar(options.grammar == nullptr ? nullptr : std::make_unique<GrammarMatcher>(std::move(options.grammar))) {
    tokens.reserve(capacityTokens);
  }

  // What is past the capacity is dropped: a pass issued before its caller knew that the sequence had ended may compute
  // it.
  void append(int32_t token) {
    if (tokens.size() < capacityTokens) tokens.push_back(token);
  }

  size_t typeOf(uint32_t position) const { return position < secondText ? 0 : 1; }

  // Whether its next token is that of the largest logit as it stands, or drawn from them so.
  bool takesLogitsAsTheyAre() const { return sampling.repetitionPenalty == 1 && adjustments == nullptr; }

  std::vector<int32_t> tokens;  // touched by the compute queue alone once the sequence exists
  const uint32_t promptTokens;
  const uint32_t capacityTokens;
  const SamplingParameters sampling;
  const std::shared_ptr<const LogitAdjustments> adjustments;
  const int32_t logprobs;
  const std::vector<int32_t> candidates;
  const bool certainty;
  const Pooling pooling;
  const uint32_t secondText;
  const int32_t state;
  const std::unique_ptr<GrammarMatcher> grammar;  // touched by the compute queue alone once the sequence exists
  std::vector<double> pooled;   // of an embedding, what there is so far; touched by the compute queue alone
  int32_t nonFiniteLayer = -1;  // the first layer after which a token that is sampled from had hidden states that are
                                // not finite; touched by the compute queue alone
  uint32_t handle = 0;
  bool freed = false;                    // touched by the owner's thread alone
  std::atomic<uint32_t> busyBatches{0};  // batches with this sequence that have tasks under way
};

}  // namespace spillway
