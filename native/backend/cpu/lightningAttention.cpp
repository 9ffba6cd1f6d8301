#include "CpuPass.h"
#include "decay.h"
#include "stateStep.h"

namespace spillway {

// Lightning attention (Qin et al. 2024, as MiniMax-Text-01 has it): of a head's query, key and value through SiLU, a
// state that is forgotten at the head's own rate, to which the value is added by the key, and which is read by the
// query; a norm of all heads together, and a gate. Token by token in order, so that chunks change no bit.
void CpuPass::applyLightning(size_t layer) const {
  const size_t heads = spec.recurrent.lightningHeads, headDim = spec.recurrent.lightningDim,
               values = spec.lightningValues(), stride = spec.mixedWidth(), stateFloats = headDim * headDim,
               tokensEach = tokensOfRange();
  const ScratchScope scope(*this);
  float** remembered = scratch.take<float*>(batch.ranges.size());
  if (measuring) return;
  rememberedBy(layer, remembered);
  const RowKernels& rows = compute.kernels.rows;
  const std::vector<float>& decays = spec.layerSpecs[layer].decays;
  float* const outputs = activations.queries;
  forRows(batch.ranges.size() * heads, stateFloats * tokensEach, [&](size_t index, unsigned) {
    const BatchRange& range = batch.ranges[index / heads];
    const size_t head = index % heads;
    float* state = remembered[index / heads] + head * stateFloats;
    for (size_t t = range.firstToken; t < size_t(range.firstToken) + range.tokens; t++) {
      float* query = activations.mixed + t * stride + head * 3 * headDim;
      const float *key = query + headDim, *value = key + headDim;
      rows.activate(Activation::Silu, query, nullptr, 3 * headDim);
      stateStep(state, value, key, query, decays[head], headDim, headDim, outputs + t * values + head * headDim);
    }
  });
  forRows(tokens(), values, [&](size_t t, unsigned) {
    float* output = outputs + t * values;
    const float* gate = activations.mixed + t * stride + 3 * values;
    rows.rmsNorm(output, weights.layer(layer).mixNorm, spec.recurrent.lightningEpsilon, values, output);
    for (size_t i = 0; i < values; i++) output[i] *= logistic(gate[i]);
  });
}

}  // namespace spillway
