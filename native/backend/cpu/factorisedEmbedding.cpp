#include "CpuPass.h"

namespace spillway {

// Embeddings narrower than the hidden states, of which positions and types are, and the norm (ALBERT, ELECTRA).
void CpuPass::finishFactorised(float* embedded) const {
  const GlobalWeights& global = weights.global();
  const size_t width = spec.embeddingSize;
  const ScratchScope scope(*this);
  float* rows = scratch.take<float>(size_t(compute.pool.threads()) * width);
  forRows(tokens(), width, [&](size_t t, unsigned worker) {
    const BatchToken& token = batch.tokens[t];
    float *to = embedded + t * width, *row = rows + size_t(worker) * width;
    const auto add = [&](const StoredMatrix& matrix, size_t at) {
      unpackRow(matrix, at, row);
      compute.kernels.rows.add(row, to, width);
    };
    if (spec.position == PositionKind::Learned)
      add(global.positionEmbedding, size_t(token.position) + spec.learnedOffset);
    if (spec.tokenTypes != 0) add(global.typeEmbedding, batch.ranges[token.range].sequence->typeOf(token.position));
    if (spec.embeddingNorm)
      compute.kernels.rows.layerNorm(to, global.embeddingNorm, global.embeddingNormBias, spec.normEpsilon, width, to);
  });
}

}  // namespace spillway
