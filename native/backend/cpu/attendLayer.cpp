#include "Pass.h"

namespace spillway {

void attendLayer(const Pass& pass, size_t layer) {
  const DecoderSpec& spec = pass.spec;
  const Batch& batch = pass.batch;
  if (pass.measuring) {
    const size_t mark = pass.scratch.used();
    pass.scratch.take<uint8_t>(attentionScratchBytes(pass.cache.layout(), spec.heads, batch.ranges.size(),
                                                     pass.compute.pool.threads(),
                                                     pass.keepKeys < 1 ? spec.contextTokens : 0));
    pass.scratch.release(mark);
    return;
  }
  if (batch.spilled) {
    copyPages(pass, layer);
    placePages(pass, layer);
  } else
    for (size_t i = 0; i < batch.pages.size(); i++)
      batch.pagePointers[i] = pass.cache.page(layer, static_cast<size_t>(batch.pages[i]));
  for (size_t r = 0; r < batch.ranges.size(); r++) {
    const BatchRange& range = batch.ranges[batch.alike[r]];
    float* queries = pass.activations.queries + size_t(range.firstToken) * spec.queryWidth();
    batch.attentionRows[r] = {queries,
                              queries,
                              range.firstPosition,
                              range.tokens,
                              batch.pagePointers.data() + range.firstPage,
                              range.sequence->promptTokens};
  }
  const float* slopes = spec.position == PositionKind::Alibi ? spec.alibiSlopes.data() : nullptr;
  const AttentionShape shape{spec.heads, spec.attentionScale,       spec.layerSpecs[layer].window,
                             slopes,     spec.alibiRoundToBfloat16, pass.keepKeys};
  attend(pass.compute, pass.cache.layout(), shape, batch.attentionRows.data(), batch.attentionRows.size(),
         spec.queryWidth(), spec.queryWidth(), pass.scratch);
}

}  // namespace spillway
