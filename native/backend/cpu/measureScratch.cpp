#include "Pass.h"

namespace spillway {

size_t measureScratch(const DecoderSpec& spec, const Weights& weights, const PagePool& cache, const Compute& compute,
                      const Limits& limits, bool keepsKeys, float keepKeys) {
  Batch batch;
  batch.ranges.resize(limits.rowsPerSquare);
  batch.tokens.resize(limits.tokensPerSquare);
  Activations activations(spec, 0, keepsKeys);
  Scratch scratch(nullptr, 0);
  const Pass pass{spec, weights, cache, compute, batch, activations, scratch, true, keepKeys};
  if (spec.embeds()) embed(pass);
  for (size_t layer = 0; layer < spec.layers; layer++) {
    project(pass, layer);
    attendLayer(pass, layer);
    finish(pass, layer);
  }
  if (spec.samples()) head(pass);
  return scratch.peak();
}

}  // namespace spillway
