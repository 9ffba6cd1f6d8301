#include "../../model/layer.h"
#include "../../model/pooling.h"
#include "CpuPass.h"

namespace spillway {

namespace {

// Tokens of the batch whose logits or pooled states the head computes, in order. @returns how many
size_t listHeadTokens(const Batch& batch, uint32_t* tokens) {
  size_t count = 0;
  for (const BatchRange& range : batch.ranges) {
    const bool embeds = range.sequence->pooling != Pooling::None;
    if (!embeds && range.mode != HeadMode::Score && !samples(range)) continue;
    for (uint32_t t = range.mode == HeadMode::Sample && !embeds ? range.tokens - 1 : 0; t < range.tokens; t++) {
      if (!embeds || isPooled(*range.sequence, range.firstPosition + t)) tokens[count++] = range.firstToken + t;
    }
  }
  return count;
}

// Remembers for each sequence that will be sampled from as of which layer its hidden states are not finite.
void lookForOdd(const CpuPass& pass, size_t layer) {
  if (pass.measuring) return;
  const size_t width = pass.spec.hiddenSize;
  for (const BatchRange& range : pass.batch.ranges) {
    Sequence& sequence = *range.sequence;
    if (!samples(range) || sequence.nonFiniteLayer >= 0) continue;
    const float* last = pass.activations.hidden + (size_t(range.firstToken) + range.tokens - 1) * width;
    if (!pass.compute.kernels.rows.allFinite(last, width)) sequence.nonFiniteLayer = static_cast<int32_t>(layer);
  }
}

bool isLatent(const DecoderSpec& spec, size_t layer) {
  return spec.latent.rank != 0 && spec.layerSpecs[layer].mixer == Mixer::Attention;
}

}  // namespace

// finishLayer(), of latent attention with what has its weights.
void CpuPass::finishTokens(size_t layer) const {
  if (isLatent(spec, layer)) expandLatent(layer);
  finishLayer(*this, layer);
}

// As finishTokens(), of what is still wanted. After the last layer nobody asks for a prompt's other tokens: sequences
// that the head takes are moved to the front, finished there, and moved back.
void CpuPass::finishWanted(size_t layer) const {
  // What a layer gets of embeddings, or of experts before it, it gets by its tokens' places.
  if (!spec.samples() || layer + 1 != spec.layers || spec.layerInputSize != 0 || spec.expertsAside)
    return finishTokens(layer);
  const size_t mark = scratch.used();
  uint32_t* taken = scratch.take<uint32_t>(tokens());
  if (measuring) {
    finishTokens(layer);
  } else if (const size_t count = listHeadTokens(batch, taken); count > 0) {
    const auto move = [](float* rows, size_t width, size_t from, size_t to) {
      if (from != to) std::copy_n(rows + from * width, width, rows + to * width);
    };
    const size_t width = spec.hiddenSize,
                 attended = isLatent(spec, layer) ? spec.queryWidth() : weights.layer(layer).o.inputs;
    for (size_t i = 0; i < count; i++) {
      move(activations.hidden, width, taken[i], i);
      move(activations.queries, attended, taken[i], i);
      if (spec.layerSpecs[layer].stateBeside) move(besideOutputs(), spec.stateValues(), taken[i], i);
    }
    CpuPass some = *this;
    some.leading = count;
    some.finishTokens(layer);
    for (size_t i = count; i-- > 0;) move(activations.hidden, width, i, taken[i]);
  }
  scratch.release(mark);
}

void CpuPass::finish(size_t layer) const {
  finishWanted(layer);
  finished(layer);
}

void CpuPass::finished(size_t layer) const { lookForOdd(*this, layer); }

}  // namespace spillway
