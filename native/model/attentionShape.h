// What a layer's attention is, of a decoder.
#pragma once
#include "../kernels/cpu/Attention.h"
#include "DecoderSpec.h"

namespace spillway {

// slopes, sinks: those of the decoder and of the layer, where they are computed with; null without.
inline AttentionShape attentionShape(const DecoderSpec& spec, size_t layer, const float* slopes, const float* sinks,
                                     float keep) {
  return {spec.headsOf(spec.layerSpecs[layer]),
          spec.attentionScale,
          spec.layerSpecs[layer].window,
          slopes,
          spec.alibiRoundToBfloat16,
          keep,
          spec.attentionSoftCap,
          sinks};
}

// For the processor.
inline AttentionShape attentionShape(const DecoderSpec& spec, size_t layer, const float* sinks, float keep) {
  const bool slopes = spec.position == PositionKind::Alibi && !spec.alibiSymmetric;
  return attentionShape(spec, layer, slopes ? spec.alibiSlopes.data() : nullptr, sinks, keep);
}

}  // namespace spillway
