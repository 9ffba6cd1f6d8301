#include "pooling.h"

#include <cmath>
#include <limits>

namespace spillway {

bool isPooled(const Sequence& sequence, size_t position) {
  switch (sequence.pooling) {
    case Pooling::None: return false;
    case Pooling::Last: return position + 1 == sequence.tokens.size();
    case Pooling::Mean:
    case Pooling::Max:
    case Pooling::WeightedMean: return true;
    case Pooling::First: return position == 0;
  }
  return false;
}

std::vector<uint32_t> listPooled(const Batch& batch) {
  std::vector<uint32_t> tokens;
  for (uint32_t t = 0; t < batch.tokens.size(); t++) {
    const BatchToken& token = batch.tokens[t];
    if (isPooled(*batch.ranges[token.range].sequence, token.position)) tokens.push_back(t);
  }
  return tokens;
}

void pool(const Batch& batch, const uint32_t* tokens, size_t count, const float* normed, size_t width) {
  for (size_t i = 0; i < count; i++) {
    Sequence& sequence = *batch.ranges[batch.tokens[tokens[i]].range].sequence;
    const bool first = sequence.pooled.empty();
    sequence.pooled.resize(width);
    const float* hidden = normed + i * width;
    double* pooled = sequence.pooled.data();
    if (sequence.pooling == Pooling::Max && !first) {
      // A NaN stays, whichever of the two it is.
      for (size_t c = 0; c < width; c++)
        if (!(pooled[c] >= static_cast<double>(hidden[c])) && !std::isnan(pooled[c])) pooled[c] = hidden[c];
      continue;
    }
    const double weight = sequence.pooling == Pooling::WeightedMean ? double(batch.tokens[tokens[i]].position) + 1 : 1;
    for (size_t c = 0; c < width; c++) pooled[c] += weight * static_cast<double>(hidden[c]);
  }
}

namespace {

// What a sequence's sum is divided by: of the weighted mean, token i weighs i + 1.
double divisorOf(const Sequence& sequence) {
  const double tokens = static_cast<double>(sequence.tokens.size());
  if (sequence.pooling == Pooling::Mean) return tokens;
  return sequence.pooling == Pooling::WeightedMean ? tokens * (tokens + 1) / 2 : 1;
}

}  // namespace

void takeEmbeddings(const Batch& batch, size_t width, HeadResult& result) {
  result.embeddings.reserve(result.embedded.size() * width);
  for (const BatchRange& range : batch.ranges) {
    const Sequence& sequence = *range.sequence;
    if (range.mode != HeadMode::Sample || sequence.pooling == Pooling::None) continue;
    const double count = divisorOf(sequence);
    for (size_t c = 0; c < width; c++)
      result.embeddings.push_back(sequence.pooled.empty() ? std::numeric_limits<float>::quiet_NaN()
                                                          : static_cast<float>(sequence.pooled[c] / count));
  }
}

}  // namespace spillway
