#include <algorithm>

#include "CpuPass.h"

namespace spillway {

namespace {

// Some outputs of a matrix, from a panel's first on, as a product of their own: those of one head.
StoredMatrix outputsOf(const StoredMatrix& matrix, uint32_t first, uint32_t count) {
  StoredMatrix some = matrix;
  const uint64_t skipped = uint64_t(first / kPanelOutputs) * panelBytes(matrix.type, matrix.inputs);
  const uint32_t resident = std::min(std::max(matrix.residentOutputs, first), first + count) - first;
  some.outputs = count;
  some.residentOutputs = resident;
  if (resident != 0 && matrix.panels != nullptr) some.panels = matrix.panels + skipped;
  const uint64_t residentBytes =
      uint64_t(matrix.residentOutputs / kPanelOutputs) * panelBytes(matrix.type, matrix.inputs);
  if (skipped > residentBytes) some.streamedAt = matrix.streamedAt + (skipped - residentBytes);
  return some;
}

}  // namespace

// Latent attention (MLA, DeepSeek V2), always in its absorbed form: a head's queries go through its keys' product, so
// that they meet the latent rows themselves, and its outputs, sums of latent rows, through its values' product. The
// expanded form would make keys and values of all heads anew from each row of the cache in each pass.
void CpuPass::projectLatent(size_t layer, float* keys) const {
  const LayerWeights& layerWeights = weights.layer(layer);
  const LatentSpec& latent = spec.latent;
  const size_t count = tokens(), each = latent.plain + latent.rotated, projected = spec.heads * each;
  const ScratchScope scope(*this);
  float* queries = scratch.take<float>(count * projected);
  {
    const ScratchScope products(*this);
    const bool reduced = latent.queryRank != 0;
    const StoredMatrix* const matrices[] = {reduced ? &layerWeights.qDown : &layerWeights.q, &layerWeights.latent,
                                            &layerWeights.qGate};
    const MatrixInput input = normed(matrices, spec.attentionGate ? 3 : 2, layerWeights.norm1, layerWeights.norm1Bias);
    float* first = reduced ? scratch.take<float>(count * latent.queryRank) : queries;
    const ProductJob jobs[] = {
        {matrices[0], reduced ? layerWeights.qDownBias : layerWeights.qBias, first,
         reduced ? size_t(latent.queryRank) : projected},
        {&layerWeights.latent, layerWeights.latentBias, keys, spec.headDim},
    };
    multiply(jobs, 2, input, ProductOf::Tokens);
    if (spec.attentionGate) {
      const ProductJob gate{&layerWeights.qGate, nullptr, activations.mixed, spec.mixedWidth()};
      multiply(&gate, 1, input, ProductOf::Tokens);
    }
    const RowKernels& rows = compute.kernels.rows;
    forRows(count, spec.headDim + latent.queryRank, [&](size_t t, unsigned) {
      float* row = keys + t * spec.headDim;
      rows.rmsNorm(row, layerWeights.latentNorm, latent.epsilon, latent.rank, row);
      if (latent.scale != 1) rows.scale(latent.scale, row, latent.rank);
      if (reduced)
        rows.rmsNorm(first + t * latent.queryRank, layerWeights.qDownNorm, latent.epsilon, latent.queryRank,
                     first + t * latent.queryRank);
    });
    if (reduced) Pass::multiply(layerWeights.q, layerWeights.qBias, first, count, queries, ProductOf::Tokens);
  }
  for (uint32_t h = 0; h < spec.heads; h++) {
    const ScratchScope head(*this);
    const StoredMatrix up = outputsOf(layerWeights.kUp, h * latent.rank, latent.rank);
    const MatrixInput input = prepareInput(compute, queries + h * each, count, latent.plain, projected,
                                           quantisedInput(compute, up.type), scratch);
    const ProductJob job{&up, nullptr, activations.queries + size_t(h) * spec.headDim, spec.queryWidth()};
    multiply(&job, 1, input, ProductOf::Tokens);
  }
  forRows(count, spec.heads * size_t(latent.rotated), [&](size_t t, unsigned) {
    for (size_t h = 0; h < spec.heads; h++)
      std::copy_n(queries + t * projected + h * each + latent.plain, latent.rotated,
                  activations.queries + t * spec.queryWidth() + h * spec.headDim + latent.rank);
  });
}

void CpuPass::expandLatent(size_t layer) const {
  const LatentSpec& latent = spec.latent;
  const size_t count = tokens(), width = spec.heads * size_t(latent.value);
  const ScratchScope scope(*this);
  float* values = scratch.take<float>(count * width);
  for (uint32_t h = 0; h < spec.heads; h++) {
    const ScratchScope head(*this);
    const StoredMatrix up = outputsOf(weights.layer(layer).vUp, h * latent.value, latent.value);
    const MatrixInput input = prepareInput(compute, activations.queries + size_t(h) * spec.headDim, count, latent.rank,
                                           spec.queryWidth(), quantisedInput(compute, up.type), scratch);
    const ProductJob job{&up, nullptr, values + size_t(h) * latent.value, width};
    multiply(&job, 1, input, ProductOf::Tokens);
  }
  if (!measuring) std::copy_n(values, count * width, activations.queries);
}

}  // namespace spillway
