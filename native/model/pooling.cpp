#include "pooling.h"

#include <cmath>
#include <limits>

namespace spillway {

bool isPooled(const Sequence& sequence, size_t position) {
  switch (sequence.pooling) {
    case Pooling::None: return false;
    case Pooling::Last: return position + 1 == sequence.tokens.size();
    case Pooling::Mean: return true;
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
    sequence.pooled.resize(width);
    const float* hidden = normed + i * width;
    for (size_t c = 0; c < width; c++) sequence.pooled[c] += static_cast<double>(hidden[c]);
  }
}

void takeEmbeddings(const Batch& batch, size_t width, HeadResult& result) {
  result.embeddings.reserve(result.embedded.size() * width);
  for (const BatchRange& range : batch.ranges) {
    const Sequence& sequence = *range.sequence;
    if (range.mode != HeadMode::Sample || sequence.pooling == Pooling::None) continue;
    const double count = sequence.pooling == Pooling::Mean ? static_cast<double>(sequence.tokens.size()) : 1.0;
    for (size_t c = 0; c < width; c++)
      result.embeddings.push_back(sequence.pooled.empty() ? std::numeric_limits<float>::quiet_NaN()
                                                          : static_cast<float>(sequence.pooled[c] / count));
  }
}

}  // namespace spillway
