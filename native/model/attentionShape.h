// What a layer's attention is, of a decoder.
#pragma once
#include "../kernels/cpu/Attention.h"
#include "DecoderSpec.h"

namespace spillway {

// slopes: those of the decoder, where they are computed with; null without ALiBi.
inline AttentionShape attentionShape(const DecoderSpec& spec, size_t layer, const float* slopes, float keep) {
  return {spec.heads, spec.attentionScale,  spec.layerSpecs[layer].window, slopes, spec.alibiRoundToBfloat16,
          keep,       spec.attentionSoftCap};
}

// For the processor.
inline AttentionShape attentionShape(const DecoderSpec& spec, size_t layer, float keep) {
  return attentionShape(spec, layer, spec.position == PositionKind::Alibi ? spec.alibiSlopes.data() : nullptr, keep);
}

}  // namespace spillway
