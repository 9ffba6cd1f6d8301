#include <cmath>

#include "CpuPass.h"

namespace spillway {

void CpuPass::unpackOutput(const StoredMatrix& matrix, size_t output, float* to) const {
  SplitProduct parts;
  parts.cut({&matrix, nullptr, nullptr, 0}, streamed);
  for (size_t p = 0; p < parts.count; p++) {
    if (output < parts.matrices[p].outputs) return unpackRow(parts.matrices[p], output, to);
    output -= parts.matrices[p].outputs;
  }
}

// Per-layer inputs (Gemma 3n and 4): each layer has embeddings of its own, which are added to a projection of the
// token's; what the hidden states make of both is one more branch. Made anew for each layer from the tokens alone, so
// that nothing of it has to be kept between layers.
void CpuPass::addLayerInput(size_t layer) const {
  const ScratchScope scope(*this);
  float* branch = scratch.take<float>(tokens() * spec.hiddenSize);
  makeLayerInput(layer, activations.hidden, branch);
  addBranch(branch, weights.layer(layer).inputPostNorm, nullptr, nullptr, nullptr);
}

void CpuPass::makeLayerInput(size_t layer, const float* read, float* branch) const {
  const LayerWeights& layerWeights = weights.layer(layer);
  const size_t count = tokens(), width = spec.layerInputSize, hidden = spec.hiddenSize;
  const ScratchScope scope(*this);
  float* input = scratch.take<float>(count * width);
  float* gate = scratch.take<float>(count * width);
  lookUpTokens(weights.global().tokenEmbedding, spec.embeddingScale, branch);
  Pass::multiply(layerWeights.inputProjection, nullptr, branch, count, input, ProductOf::Tokens);
  Pass::multiply(layerWeights.inputGate, nullptr, read, count, gate, ProductOf::Tokens);
  const RowKernels& rows = compute.kernels.rows;
  const float projected = 1.0f / std::sqrt(static_cast<float>(hidden)), own = std::sqrt(static_cast<float>(width)),
              both = std::sqrt(0.5f);
  float* embeddings = scratch.take<float>(size_t(compute.pool.threads()) * width);
  forRows(count, 4 * width, [&](size_t t, unsigned worker) {
    const BatchToken& token = batch.tokens[t];
    float* embedding = embeddings + size_t(worker) * width;
    float* row = input + t * width;
    const auto id = static_cast<size_t>(batch.ranges[token.range].sequence->tokens[token.position]);
    unpackOutput(layerWeights.inputEmbedding, id < spec.inputTokens() ? id : 0, embedding);
    rows.scale(projected, row, width);
    rows.rmsNorm(row, layerWeights.inputNorm, spec.normEpsilon, width, row);
    rows.addScaled(embedding, own, row, width);
    rows.scale(both, row, width);
    rows.activate(spec.activation, gate + t * width, row, width);
  });
  Pass::multiply(layerWeights.inputOut, nullptr, gate, count, branch, ProductOf::Tokens);
}

void CpuPass::scaleLayer(size_t layer) const {
  const float* scale = weights.layer(layer).scale;
  const size_t width = spec.hiddenSize;
  forRows(tokens(), width,
          [&](size_t t, unsigned) { compute.kernels.rows.scale(*scale, activations.hidden + t * width, width); });
}

}  // namespace spillway
