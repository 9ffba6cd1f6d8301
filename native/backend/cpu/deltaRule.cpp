#include <cmath>

#include "CpuPass.h"
#include "decay.h"
#include "deltaStep.h"

namespace spillway {

namespace {

// y = x / sqrt(sum of squares + epsilon) * scale
void normalise(const float* x, size_t n, float scale, float* y) {
  constexpr float kEpsilon = 1e-6f;
  float squares = 0;
  for (size_t i = 0; i < n; i++) squares += x[i] * x[i];
  const float factor = scale / std::sqrt(squares + kEpsilon);
  for (size_t i = 0; i < n; i++) y[i] = x[i] * factor;
}

// What is left of a head's state by each element of its key.
void decaysOfKey(const RecurrentSpec& delta, float forgets, const float* rates, const float* biases, size_t head,
                 float* decays) {
  for (size_t k = 0; k < delta.keyDim; k++) {
    const float rate = rates[head * delta.keyDim + k] + biases[head * delta.keyDim + k];
    decays[k] =
        std::exp(delta.leastDecay == 0 ? -forgets * softplus(rate) : delta.leastDecay * logistic(forgets * rate));
  }
}

}  // namespace

// Gated DeltaNet (Yang et al. 2024, as Qwen 3.5 has it): queries, keys and values through a convolution, each head's
// state by the gated delta rule, a norm of what it holds, and a gate; or Kimi's delta attention, which is that with a
// decay of each element of a key. Token by token in order, so that chunks change no bit.
void CpuPass::applyDeltaRule(size_t layer) const {
  const RecurrentSpec& delta = spec.recurrent;
  const size_t keys = spec.deltaKeys(), values = spec.deltaValues(), stride = spec.mixedWidth(),
               convolved = spec.convolvedWidth(Mixer::DeltaRule), scratchFloats = 3 * delta.keyDim;
  const ScratchScope scope(*this);
  float* normed = scratch.take<float>(compute.pool.threads() * scratchFloats);
  float** remembered = scratch.take<float*>(batch.ranges.size());
  if (measuring) return;
  rememberedBy(layer, remembered);
  const LayerWeights& layerWeights = weights.layer(layer);
  const RowKernels& rows = compute.kernels.rows;
  convolveMixed(layer, convolved, remembered);
  const size_t tokensEach = tokensOfRange();
  const size_t heads = delta.valueHeads, stateFloats = size_t(delta.keyDim) * delta.valueDim;
  const float scale = 1.0f / std::sqrt(static_cast<float>(delta.keyDim));
  forRows(batch.ranges.size() * heads, stateFloats * tokensEach, [&](size_t index, unsigned worker) {
    const BatchRange& range = batch.ranges[index / heads];
    const size_t head = index % heads,
                 keyHead = delta.tiledHeads ? head % delta.keyHeads : head / (heads / delta.keyHeads);
    float* query = normed + worker * scratchFloats;
    float* key = query + delta.keyDim;
    float* decays = key + delta.keyDim;
    float* state = remembered[index / heads] + (delta.taps - 1) * convolved + head * stateFloats;
    const float forgets = decayRate(delta, layerWeights.decay[head]);
    for (size_t t = range.firstToken; t < size_t(range.firstToken) + range.tokens; t++) {
      float* row = activations.mixed + t * stride;
      normalise(row + keyHead * delta.keyDim, delta.keyDim, scale, query);
      normalise(row + keys + keyHead * delta.keyDim, delta.keyDim, 1.0f, key);
      float* gate = row + convolved + head * delta.valueDim;
      const float* beta = row + convolved + values;
      const float written = delta.betaScale * logistic(beta[head]);
      const float* rates = beta + heads;
      if (delta.decaysByKey) decaysOfKey(delta, forgets, rates, layerWeights.decayBias, head, decays);
      const float decay =
          delta.decaysByKey ? 0 : std::exp(-forgets * softplus(rates[head] + layerWeights.decayBias[head]));
      float* output = activations.queries + t * values + head * delta.valueDim;
      deltaStep(state, query, key, row + 2 * keys + head * delta.valueDim, decay, written, delta.keyDim, delta.valueDim,
                output, delta.decaysByKey ? decays : nullptr);
      rows.rmsNorm(output, layerWeights.mixNorm, delta.deltaEpsilon, delta.valueDim, output);
      if (delta.decaysByKey) {
        for (size_t i = 0; i < delta.valueDim; i++) output[i] *= logistic(gate[i]);
        continue;
      }
      rows.activate(Activation::Silu, gate, output, delta.valueDim);
      std::copy_n(gate, delta.valueDim, output);
    }
  });
}

}  // namespace spillway
