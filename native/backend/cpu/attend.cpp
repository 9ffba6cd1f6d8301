#include <algorithm>
#include <cmath>
#include <cstring>

#include "../../model/attentionShape.h"
#include "../../model/distanceBiases.h"
#include "CpuPass.h"

namespace spillway {

void CpuPass::attend(size_t layer) const {
  switch (spec.layerSpecs[layer].mixer) {
    case Mixer::Attention: break;
    case Mixer::DeltaRule: return applyDeltaRule(layer);
    case Mixer::ShortConvolution: return applyShortConvolution(layer);
    case Mixer::StateSpace: return applyStateSpace(layer);
    case Mixer::SelectiveScan: return applySelectiveScan(layer);
    case Mixer::LightningAttention: return applyLightning(layer);
    case Mixer::RgLru: return applyRgLru(layer);
  }
  const LayerSpec& layerSpec = spec.layerSpecs[layer];
  if (layerSpec.stateBeside) applyStateSpace(layer);
  const bool disentangled = spec.disentangled.span != 0;
  const bool evicts = spec.evictionWindow != 0 && layerSpec.window == 0;
  if (measuring) {
    const size_t mark = scratch.used();
    if (evicts) return attendEvicted(layer, attentionShape(spec, layer, nullptr, keepKeys));
    if (disentangled) return attendDisentangled(layer, attentionShape(spec, layer, nullptr, keepKeys));
    scratch.take<uint8_t>(attentionScratchBytes(cache.layout(layer), spec.headsOf(layerSpec), batch.ranges.size(),
                                                compute.pool.threads(), keepKeys < 1 ? spec.contextTokens : 0));
    scratch.release(mark);
    if (cache.layout(layer).keysApart) chooseValues(layer, attentionShape(spec, layer, nullptr, keepKeys));
    return;
  }
  if (batch.spilled || activations.ofRows) {
    copyPages(*this, layer);
    placePages(*this, layer);
  } else
    pointToPages(*this, layer);
  const uint32_t group = cache.groups().groupOf(layer);
  const size_t queryWidth = spec.queryWidth(layerSpec);
  for (size_t r = 0; r < batch.ranges.size(); r++) {
    const BatchRange& range = batch.ranges[batch.alike[r]];
    float* queries = activations.queries + size_t(range.firstToken) * queryWidth;
    batch.attentionRows[r] = {queries,
                              queries,
                              range.firstPosition,
                              range.tokens,
                              batch.pagePointers.data() + range.table(group),
                              range.sequence->promptTokens};
    if (!spec.causal) batch.attentionRows[r].keys = range.tokens;
  }
  AttentionShape shape = attentionShape(spec, layer, weights.layer(layer).sinks, keepKeys);
  shape.distances = distances;
  shape.distanceStride = distances == nullptr ? 0 : distanceStride(spec);
  if (bringValues) chooseValues(layer, shape);
  if (evicts)
    attendEvicted(layer, shape);
  else if (disentangled)
    attendDisentangled(layer, shape);
  else
    spillway::attend(compute, cache.layout(layer), shape, batch.attentionRows.data(), batch.attentionRows.size(),
                     queryWidth, queryWidth, scratch);
  if (spec.attentionOutput != 1)
    forRows(tokens(), queryWidth, [&](size_t t, unsigned) {
      compute.kernels.rows.scale(spec.attentionOutput, activations.queries + t * queryWidth, queryWidth);
    });
  if (spec.attentionGate) gateHeads(layerSpec);
  if (spec.valueDim != 0) gatherValues(layerSpec);
}

// Attention's outputs, multiplied by what their gates' products come to.
void CpuPass::gateHeads(const LayerSpec& layerSpec) const {
  const size_t width = spec.queryWidth(layerSpec), stride = spec.mixedWidth(), headDim = spec.headDimOf(layerSpec);
  const bool softplus = spec.gateActivation == GateActivation::Softplus;
  const auto factor = [softplus](float x) {
    if (!softplus) return 1.0f / (1.0f + std::exp(-x));
    return std::max(x, 0.0f) + std::log1p(std::exp(-std::fabs(x)));
  };
  forRows(tokens(), width, [&](size_t t, unsigned) {
    float* output = activations.queries + t * width;
    const float* gate = activations.mixed + t * stride;
    if (!spec.gatesHeads) {
      for (size_t i = 0; i < width; i++) output[i] *= factor(gate[i]);
      return;
    }
    for (size_t h = 0; h < spec.headsOf(layerSpec); h++)
      compute.kernels.rows.scale(factor(gate[h]), output + h * headDim, headDim);
  });
}

// Attention's outputs without what is no value's, one after another: what the output projection takes.
void CpuPass::gatherValues(const LayerSpec& layerSpec) const {
  const size_t headDim = spec.headDimOf(layerSpec), heads = tokens() * spec.headsOf(layerSpec);
  float* outputs = activations.queries;
  for (size_t h = 0; h < heads; h++)
    std::memmove(outputs + h * spec.valueDim, outputs + h * headDim, spec.valueDim * sizeof(float));
}

}  // namespace spillway
