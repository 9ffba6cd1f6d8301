#include <string>

#include "../../system/Error.h"
#include "Pass.h"

namespace spillway {

void checkKnown(const Batch& batch) {
  for (const BatchRange& range : batch.ranges) {
    const size_t known = range.sequence->tokens.size();
    if (size_t(range.firstPosition) + range.tokens <= known) continue;
    throw Error(ErrorCode::InvalidArgument, "row " + std::to_string(range.sequence->handle) +
                                                ": found positions up to " +
                                                std::to_string(range.firstPosition + range.tokens - 1) +
                                                ", expected some of its " + std::to_string(known) + " known tokens");
  }
}

void embed(const Pass& pass) {
  const DecoderSpec& spec = pass.spec;
  const GlobalWeights& weights = pass.weights.global();
  if (!pass.measuring) checkKnown(pass.batch);
  const size_t mark = pass.scratch.used();
  const bool projected = present(weights.embeddingProjection);
  float* embedded = projected ? pass.scratch.take<float>(pass.tokens() * spec.embeddingSize) : pass.activations.hidden;
  pass.forRows(pass.tokens(), spec.embeddingSize, [&](size_t t, unsigned) {
    const BatchToken& token = pass.batch.tokens[t];
    float* row = embedded + t * spec.embeddingSize;
    unpackRow(weights.tokenEmbedding,
              static_cast<size_t>(pass.batch.ranges[token.range].sequence->tokens[token.position]), row);
    if (spec.embeddingScale != 1) pass.compute.kernels.rows.scale(spec.embeddingScale, row, spec.embeddingSize);
  });
  if (projected) pass.multiply(weights.embeddingProjection, nullptr, embedded, pass.tokens(), pass.activations.hidden);

  if (spec.position == PositionKind::Learned) {
    float* positions = pass.scratch.take<float>(size_t(pass.compute.pool.threads()) * spec.hiddenSize);
    pass.forRows(pass.tokens(), spec.hiddenSize, [&](size_t t, unsigned worker) {
      float* position = positions + size_t(worker) * spec.hiddenSize;
      unpackRow(weights.positionEmbedding, size_t(pass.batch.tokens[t].position) + spec.learnedOffset, position);
      pass.compute.kernels.rows.add(position, pass.activations.hidden + t * spec.hiddenSize, spec.hiddenSize);
    });
  }
  pass.scratch.release(mark);
}

}  // namespace spillway
