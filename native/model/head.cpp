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

// Greedy rows need the largest logit only: their logits exist for so many outputs at a time that they stay in the processor's caches.
constexpr size_t kSliceBytes = size_t(1) << 20;
constexpr size_t kSliceOutputs = 1024;  // a slice is a multiple of it

// One row of logits that is wanted, and where its result goes.
struct Wanted {
  uint32_t range;
  uint32_t token;   // of the batch
  uint32_t result;  // index among the sampled rows, or among the scores
  uint32_t top;     // of a sampled one: first entry of topTokens
  bool greedy;      // all that is wanted is the first token of the largest logit
};

bool takesLargest(const Row& row) { return !(row.sampling.temperature > 0) && row.sampling.repetitionPenalty == 1 && row.logprobs < 0; }

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
  for (auto* list : {&result.rows, &result.topCounts}) list->reserve(batch.ranges.size());
  wanted.reserve(batch.ranges.size());
  for (uint32_t r = 0; r < batch.ranges.size(); r++) {
    const BatchRange& range = batch.ranges[r];
    if (range.mode == HeadMode::Sample) {
      checkSampled(range);
      wanted.push_back({r, range.firstToken + range.tokens - 1, static_cast<uint32_t>(result.rows.size()), static_cast<uint32_t>(tops), takesLargest(*range.row)});
      result.rows.push_back(static_cast<int32_t>(range.row->handle));
      result.topCounts.push_back(std::max(range.row->logprobs, 0));
      tops += static_cast<size_t>(result.topCounts.back());
    } else if (range.mode == HeadMode::Score) {
      const size_t known = range.row->tokens.size();
      const size_t count = std::min<size_t>(range.tokens, known - 1 - std::min<size_t>(known - 1, range.firstPosition));
      for (uint32_t t = 0; t < count; t++) wanted.push_back({r, range.firstToken + t, static_cast<uint32_t>(result.scores.size()) + t, 0, false});
      result.scores.resize(result.scores.size() + count);
      result.scored.insert(result.scored.end(), {static_cast<int32_t>(range.row->handle), static_cast<int32_t>(range.firstPosition), static_cast<int32_t>(count)});
    }
  }
  if (tops > std::numeric_limits<uint32_t>::max()) throw Error(ErrorCode::Memory, "too many alternatives are asked for in one batch");
  result.tokens.resize(result.rows.size());
  result.logprobs.resize(result.rows.size(), std::numeric_limits<float>::quiet_NaN());
  result.topTokens.resize(tops);
  result.topLogprobs.resize(tops);
  std::stable_partition(wanted.begin(), wanted.end(), [](const Wanted& entry) { return entry.greedy; });
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

// The largest logits of some rows, slice by slice of the vocabulary; of equal ones the first, as RowKernels::argMax has it.
void takeLargest(const Pass& pass, const Wanted* wanted, size_t rows, const float* input, size_t width, float* logits, float* largest, HeadResult& result) {
  const StoredMatrix& weights = pass.weights.head();
  const float* bias = pass.weights.global().headBias;
  const size_t slice = std::max<size_t>(1, kSliceBytes / (rows * sizeof(float) * kSliceOutputs)) * kSliceOutputs;
  const size_t mark = pass.scratch.used();
  const MatrixInput prepared = prepareInput(pass.compute, input, rows, width, width, usesRoundedInput(pass.compute, weights.type), pass.scratch);
  std::fill_n(largest, rows, -std::numeric_limits<float>::infinity());
  for (size_t r = 0; r < rows; r++) result.tokens[wanted[r].result] = 0;
  for (size_t first = 0; first < weights.outputs; first += slice) {
    const uint32_t outputs = static_cast<uint32_t>(std::min(slice, weights.outputs - first));
    const WeightMatrix part{weights.type, outputs, weights.inputs, weights.panels + first / kPanelOutputs * panelBytes(weights.type, weights.inputs)};
    const MatmulJob job{&part, bias == nullptr ? nullptr : bias + first, logits, outputs};
    matmul(pass.compute, &job, 1, prepared, pass.scratch);
    pass.forRows(rows, outputs, [&](size_t r, unsigned) {
      float value;
      size_t index;
      pass.compute.kernels.rows.argMax(logits + r * outputs, outputs, &value, &index);
      if (!(value > largest[r])) return;
      largest[r] = value;
      result.tokens[wanted[r].result] = static_cast<int32_t>(first + index);
    });
  }
  pass.scratch.release(mark);
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
  float* largest = pass.scratch.take<float>(most);
  const bool sliced = !streams(pass.weights.head());
  const auto greedyEnd = std::find_if(wanted.begin(), wanted.end(), [sliced](const Wanted& entry) { return !(sliced && entry.greedy); });
  const size_t greedyRows = static_cast<size_t>(greedyEnd - wanted.begin());

  for (size_t first = 0, rows; first < wanted.size(); first += rows) {
    const bool greedy = first < greedyRows;
    rows = std::min(most, (greedy ? greedyRows : wanted.size()) - first);
    pass.forRows(rows, width, [&](size_t i, unsigned) {
      const float* hidden = pass.activations.hidden + size_t(wanted[first + i].token) * width;
      if (spec.finalNorm) pass.norm(hidden, weights.finalNorm, weights.finalNormBias, last + i * width);
      else std::copy_n(hidden, width, last + i * width);
    });
    const bool project = present(weights.outputProjection);
    if (project) pass.multiply(weights.outputProjection, nullptr, last, rows, projected);
    const float* input = project ? projected : last;
    if (greedy) {
      takeLargest(pass, &wanted[first], rows, input, project ? spec.embeddingSize : width, logits, largest, *result);
      continue;
    }
    pass.multiply(pass.weights.head(), weights.headBias, input, rows, logits);
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
