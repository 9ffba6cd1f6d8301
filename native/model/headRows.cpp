#include "headRows.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "../system/Error.h"

namespace spillway {

namespace {

constexpr size_t kLogitBytes = size_t(32) << 20;
constexpr size_t kLeastRows = 8;
constexpr size_t kMostRows = 256;

void checkSampled(const BatchRange& range) {
  const size_t known = range.sequence->tokens.size();
  const size_t end = size_t(range.firstPosition) + range.tokens;
  if (end == known || (end < known && range.sequence->grammar != nullptr)) return;
  throw Error(ErrorCode::InvalidArgument,
              "row " + std::to_string(range.sequence->handle) + ": found a range that ends at position " +
                  std::to_string(range.firstPosition + range.tokens - 1) +
                  ", expected its last known token at position " + std::to_string(known - 1) + ", for sampling");
}

}  // namespace

size_t headRowsAtATime(const DecoderSpec& spec) {
  return std::clamp(kLogitBytes / (spec.vocabularySize * sizeof(float)), kLeastRows, kMostRows);
}

std::vector<WantedLogits> listWanted(const Batch& batch, HeadResult& result, bool (*first)(const Sequence&)) {
  std::vector<WantedLogits> wanted;
  size_t tops = 0;
  bool certain = false;
  for (auto* list : {&result.rows, &result.topCounts}) list->reserve(batch.ranges.size());
  wanted.reserve(batch.ranges.size());
  for (uint32_t r = 0; r < batch.ranges.size(); r++) {
    const BatchRange& range = batch.ranges[r];
    if (range.mode == HeadMode::Sample) {
      checkSampled(range);
      if (!samples(range)) continue;
      if (range.sequence->pooling != Pooling::None)
        result.embedded.push_back(static_cast<int32_t>(result.rows.size()));
      else
        wanted.push_back({r, range.firstToken + range.tokens - 1, static_cast<uint32_t>(result.rows.size()),
                          static_cast<uint32_t>(tops), first(*range.sequence)});
      certain |= range.sequence->certainty;
      result.rows.push_back(static_cast<int32_t>(range.sequence->handle));
      result.topCounts.push_back(range.sequence->pooling == Pooling::None ? std::max(range.sequence->logprobs, 0) : 0);
      tops += static_cast<size_t>(result.topCounts.back());
    } else if (range.mode == HeadMode::Score) {
      const size_t known = range.sequence->tokens.size();
      const size_t count = std::min<size_t>(range.tokens, known - 1 - std::min<size_t>(known - 1, range.firstPosition));
      for (uint32_t t = 0; t < count; t++)
        wanted.push_back({r, range.firstToken + t, static_cast<uint32_t>(result.scores.size()) + t, 0, false});
      result.scores.resize(result.scores.size() + count);
      result.scored.insert(result.scored.end(),
                           {static_cast<int32_t>(range.sequence->handle), static_cast<int32_t>(range.firstPosition),
                            static_cast<int32_t>(count)});
    }
  }
  if (tops > std::numeric_limits<uint32_t>::max())
    throw Error(ErrorCode::Memory, "too many alternatives are asked for in one batch");
  result.tokens.resize(result.rows.size());
  result.logprobs.resize(result.rows.size(), std::numeric_limits<float>::quiet_NaN());
  if (certain) result.certainties.resize(result.rows.size(), std::numeric_limits<float>::quiet_NaN());
  result.topTokens.resize(tops);
  result.topLogprobs.resize(tops);
  std::stable_partition(wanted.begin(), wanted.end(), [](const WantedLogits& entry) { return entry.first; });
  return wanted;
}

namespace {

// Log-probabilities are the model's own, so what is wanted of them is taken before the grammar changes the logits.
void sampleConstrained(const Kernels& kernels, const Sequence& sequence, const WantedLogits& wanted, float* logits,
                       size_t vocabulary, void* workspace, HeadResult& result) {
  const LogNormaliser normaliser = sequence.logprobs >= 0 ? normaliserOf(kernels, logits, vocabulary) : LogNormaliser{};
  if (sequence.logprobs > 0 && std::isfinite(normaliser.maximum)) {
    topLogProbabilities(kernels, logits, vocabulary, static_cast<size_t>(sequence.logprobs),
                        &result.topTokens[wanted.top], &result.topLogprobs[wanted.top], workspace);
  }
  sequence.grammar->mask(logits, vocabulary);
  if (sequence.grammar->place() == GrammarMatcher::Place::Failed) return;
  const SampledToken sampled = sampleToken(kernels, sequence.sampling, logits, vocabulary, sequence.tokens.data(),
                                           sequence.tokens.size(), static_cast<uint32_t>(sequence.tokens.size()), false,
                                           workspace, sequence.adjustments.get(), sequence.promptTokens);
  result.tokens[wanted.result] = sampled.token;
  if (sampled.token == kNotFinite) return;
  if (sequence.logprobs >= 0) result.logprobs[wanted.result] = logProbabilityOf(normaliser, logits[sampled.token]);
  if (sequence.certainty) result.certainties[wanted.result] = certaintyOf(kernels, logits, vocabulary, sampled.token);
  // What is forced is computed without a head: a sequence that wants log-probabilities samples each token of it.
  const size_t room = sequence.capacityTokens - std::min<size_t>(sequence.capacityTokens, sequence.tokens.size() + 1);
  sequence.grammar->append(sampled.token, sequence.logprobs >= 0 ? 0 : room);
}

}  // namespace

void useLogits(const Kernels& kernels, const Batch& batch, const WantedLogits& wanted, float* logits, size_t vocabulary,
               void* workspace, HeadResult& result) {
  const BatchRange& range = batch.ranges[wanted.range];
  const Sequence& sequence = *range.sequence;
  if (range.mode == HeadMode::Score) {
    result.scores[wanted.result] =
        logProbability(kernels, logits, vocabulary, sequence.tokens[batch.tokens[wanted.token].position + 1]);
    return;
  }
  if (sequence.grammar != nullptr)
    return sampleConstrained(kernels, sequence, wanted, logits, vocabulary, workspace, result);
  const SampledToken sampled =
      sampleToken(kernels, sequence.sampling, logits, vocabulary, sequence.tokens.data(), sequence.tokens.size(),
                  static_cast<uint32_t>(sequence.tokens.size()), sequence.logprobs >= 0, workspace,
                  sequence.adjustments.get(), sequence.promptTokens);
  result.tokens[wanted.result] = sampled.token;
  if (sequence.logprobs >= 0) result.logprobs[wanted.result] = sampled.logprob;
  if (sampled.token == kNotFinite) return;
  if (sequence.certainty) result.certainties[wanted.result] = certaintyOf(kernels, logits, vocabulary, sampled.token);
  if (!sequence.candidates.empty()) {
    logProbabilities(kernels, logits, vocabulary, sequence.candidates.data(), sequence.candidates.size(),
                     &result.topLogprobs[wanted.top]);
    std::copy(sequence.candidates.begin(), sequence.candidates.end(), &result.topTokens[wanted.top]);
  } else if (sequence.logprobs > 0) {
    topLogProbabilities(kernels, logits, vocabulary, static_cast<size_t>(sequence.logprobs),
                        &result.topTokens[wanted.top], &result.topLogprobs[wanted.top], workspace);
  }
}

void appendSampled(const Batch& batch, const std::vector<WantedLogits>& wanted, HeadResult& result) {
  std::vector<const GrammarMatcher*> grammars(result.rows.size());
  for (const WantedLogits& entry : wanted) {
    const BatchRange& range = batch.ranges[entry.range];
    if (range.mode != HeadMode::Sample) continue;
    int32_t& token = result.tokens[entry.result];
    // Passes that are under way for a sequence need a token until its owner hears that there is none.
    range.sequence->append(std::max(token, 0));
    if (token == kNotFinite) token -= 1 + range.sequence->nonFiniteLayer;
    if (range.sequence->grammar == nullptr) continue;
    grammars[entry.result] = range.sequence->grammar.get();
    for (const uint32_t forced : range.sequence->grammar->forced())
      range.sequence->append(static_cast<int32_t>(forced));
  }
  if (std::all_of(grammars.begin(), grammars.end(), [](const GrammarMatcher* grammar) { return grammar == nullptr; }))
    return;
  for (const GrammarMatcher* grammar : grammars) {
    result.places.push_back(grammar == nullptr ? -1 : static_cast<int32_t>(grammar->place()));
    result.forcedCounts.push_back(grammar == nullptr ? 0 : static_cast<int32_t>(grammar->forced().size()));
    if (grammar == nullptr) continue;
    result.forcedTokens.insert(result.forcedTokens.end(), grammar->forced().begin(), grammar->forced().end());
    if (grammar->place() == GrammarMatcher::Place::Failed) result.failures.push_back(grammar->message());
  }
}

}  // namespace spillway
