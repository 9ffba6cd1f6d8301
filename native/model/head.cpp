#include <limits>
#include <string>

#include "../runtime/Error.h"
#include "Pass.h"

namespace spillway {

namespace {

constexpr size_t kLogitBytes = size_t(32) << 20;
constexpr size_t kLeastRows = 8;
constexpr size_t kMostRows = 256;

// Rows whose logits exist at a time: enough to read the head's weights seldom, few enough to bound the memory.
size_t rowsAtATime(const DecoderSpec& spec) { return std::clamp(kLogitBytes / (spec.vocabularySize * sizeof(float)), kLeastRows, kMostRows); }

// One row of logits that is wanted, and where its result goes.
struct Wanted {
  uint32_t range;
  uint32_t token;   // of the batch
  uint32_t result;  // index among the sampled rows, or among the scores
  uint32_t top;     // of a sampled one: first entry of topTokens
};

void checkSampled(const BatchRange& range) {
  const size_t known = range.row->tokens.size();
  if (size_t(range.firstPosition) + range.tokens == known) return;
  throw Error(ErrorCode::InvalidArgument, "row " + std::to_string(range.row->handle) + ": found a range that ends at position " +
                                              std::to_string(range.firstPosition + range.tokens - 1) + ", expected its last known token at position " +
                                              std::to_string(known - 1) + ", for sampling");
}

std::vector<Wanted> listWanted(const Batch& batch, HeadResult& result) {
  std::vector<Wanted> wanted;
  size_t tops = 0;
  for (uint32_t r = 0; r < batch.ranges.size(); r++) {
    const BatchRange& range = batch.ranges[r];
    if (range.mode == HeadMode::Sample) {
      checkSampled(range);
      wanted.push_back({r, range.firstToken + range.tokens - 1, static_cast<uint32_t>(result.rows.size()), static_cast<uint32_t>(tops)});
      result.rows.push_back(static_cast<int32_t>(range.row->handle));
      result.topCounts.push_back(std::max(range.row->logprobs, 0));
      tops += static_cast<size_t>(result.topCounts.back());
    } else if (range.mode == HeadMode::Score) {
      const size_t known = range.row->tokens.size();
      const size_t count = std::min<size_t>(range.tokens, known - 1 - std::min<size_t>(known - 1, range.firstPosition));
      for (uint32_t t = 0; t < count; t++) wanted.push_back({r, range.firstToken + t, static_cast<uint32_t>(result.scores.size()) + t, 0});
      result.scores.resize(result.scores.size() + count);
      result.scored.insert(result.scored.end(), {static_cast<int32_t>(range.row->handle), static_cast<int32_t>(range.firstPosition), static_cast<int32_t>(count)});
    }
  }
  if (tops > std::numeric_limits<uint32_t>::max()) throw Error(ErrorCode::Memory, "too many alternatives are asked for in one batch");
  result.tokens.resize(result.rows.size());
  result.logprobs.resize(result.rows.size(), std::numeric_limits<float>::quiet_NaN());
  result.topTokens.resize(tops);
  result.topLogprobs.resize(tops);
  return wanted;
}

void useLogits(const Pass& pass, const Wanted& wanted, const float* logits, void* workspace, HeadResult& result) {
  const Kernels& kernels = pass.compute.kernels;
  const BatchRange& range = pass.batch.ranges[wanted.range];
  const Row& row = *range.row;
  const size_t vocabulary = pass.spec.vocabularySize;
  if (range.mode == HeadMode::Score) {
    result.scores[wanted.result] = logProbability(kernels, logits, vocabulary, row.tokens[pass.batch.tokens[wanted.token].position + 1]);
    return;
  }
  if (row.logprobs > 0) {
    topLogProbabilities(kernels, logits, vocabulary, static_cast<size_t>(row.logprobs), &result.topTokens[wanted.top], &result.topLogprobs[wanted.top], workspace);
  }
  const SampledToken sampled = sampleToken(kernels, row.sampling, logits, vocabulary, row.tokens.data(), row.tokens.size(),
                                           static_cast<uint32_t>(row.tokens.size()), row.logprobs >= 0, workspace);
  result.tokens[wanted.result] = sampled.token;
  if (row.logprobs >= 0) result.logprobs[wanted.result] = sampled.logprob;
}

}  // namespace

std::unique_ptr<HeadResult> head(const Pass& pass) {
  const DecoderSpec& spec = pass.spec;
  const GlobalWeights& weights = pass.weights.global();
  const size_t width = spec.hiddenSize;
  const size_t vocabulary = spec.vocabularySize;
  auto result = std::make_unique<HeadResult>();
  const std::vector<Wanted> wanted = pass.measuring ? std::vector<Wanted>(pass.tokens()) : listWanted(pass.batch, *result);
  if (wanted.empty()) return result;

  const size_t mark = pass.scratch.used();
  const size_t most = std::min(rowsAtATime(spec), wanted.size());
  const size_t workspaceBytes = Scratch::aligned(vocabulary * 8);
  float* last = pass.scratch.take<float>(most * width);
  float* projected = present(weights.outputProjection) ? pass.scratch.take<float>(most * spec.embeddingSize) : nullptr;
  float* logits = pass.scratch.take<float>(most * vocabulary);
  uint8_t* workspaces = pass.scratch.take<uint8_t>(workspaceBytes * pass.compute.pool.threads());

  for (size_t first = 0; first < wanted.size(); first += most) {
    const size_t rows = std::min(most, wanted.size() - first);
    pass.forRows(rows, width, [&](size_t i, unsigned) {
      const float* hidden = pass.activations.hidden + size_t(wanted[first + i].token) * width;
      if (spec.finalNorm) pass.norm(hidden, weights.finalNorm, weights.finalNormBias, last + i * width);
      else std::copy_n(hidden, width, last + i * width);
    });
    const bool project = present(weights.outputProjection);
    if (project) pass.multiply(weights.outputProjection, nullptr, last, rows, projected);
    pass.multiply(pass.weights.head(), weights.headBias, project ? projected : last, rows, logits);
    pass.forRows(rows, vocabulary, [&](size_t i, unsigned worker) {
      useLogits(pass, wanted[first + i], logits + i * vocabulary, workspaces + worker * workspaceBytes, *result);
    });
    if (pass.measuring) break;
  }
  pass.scratch.release(mark);

  for (const Wanted& entry : wanted) {
    if (pass.measuring || pass.batch.ranges[entry.range].mode != HeadMode::Sample) continue;
    pass.batch.ranges[entry.range].row->append(result->tokens[entry.result]);
  }
  return result;
}

}  // namespace spillway
