#include <cmath>

#include "CpuPass.h"
#include "decay.h"
#include "deltaSteps.h"
#include "stateBlocks.h"

namespace spillway {

namespace {

// Each of Count vectors, which follow one another, becomes x / sqrt(sum of squares + epsilon) * scale. Sums are of each
// vector in order, so several of them are added up at once.
template <size_t Count>
void normaliseSome(float* x, size_t n, float scale) {
  constexpr float kEpsilon = 1e-6f;
  float squares[Count] = {};
  for (size_t i = 0; i < n; i++)
    for (size_t v = 0; v < Count; v++) squares[v] += x[v * n + i] * x[v * n + i];
  for (size_t v = 0; v < Count; v++) {
    const float factor = scale / std::sqrt(squares[v] + kEpsilon);
    for (size_t i = 0; i < n; i++) x[v * n + i] *= factor;
  }
}

void normalise(float* x, size_t count, size_t n, float scale) {
  size_t v = 0;
  for (; v + 8 <= count; v += 8) normaliseSome<8>(x + v * n, n, scale);
  for (; v < count; v++) normaliseSome<1>(x + v * n, n, scale);
}

}  // namespace

// Gated DeltaNet (Yang et al. 2024, as Qwen 3.5 has it): queries, keys and values through a convolution, each head's
// state by the gated delta rule, a norm of what it holds, and a gate; or Kimi's delta attention, which is that with a
// decay of each element of a key. Token by token in order, so that chunks change no bit.
void CpuPass::applyDeltaRule(size_t layer) const {
  const DeltaSpec& delta = spec.recurrent.delta;
  const size_t keys = spec.deltaKeys(), values = spec.deltaValues(), stride = spec.mixedWidth(),
               convolved = spec.convolvedWidth(Mixer::DeltaRule), heads = delta.valueHeads, keyDim = delta.keyDim,
               valueDim = delta.valueDim, decaysEach = delta.decaysByKey ? keyDim : 1;
  const ScratchScope scope(*this);
  float* forgets = scratch.take<float>(heads);
  float** remembered = scratch.take<float*>(batch.ranges.size());
  const LayerWeights& layerWeights = weights.layer(layer);
  if (!measuring) {
    rememberedBy(layer, remembered);
    for (size_t head = 0; head < heads; head++) forgets[head] = decayRate(spec.recurrent, layerWeights.decay[head]);
  }
  convolveMixed(layer, convolved, remembered);
  const float scale = 1.0f / std::sqrt(static_cast<float>(keyDim));
  // What a head's token is forgotten and written by takes the place of what it is made of.
  forRows(tokens(), stride, [&](size_t t, unsigned) {
    float* row = activations.mixed + t * stride;
    normalise(row, delta.keyHeads, keyDim, scale);
    normalise(row + keys, delta.keyHeads, keyDim, 1.0f);
    float* betas = row + convolved + values;
    for (size_t head = 0; head < heads; head++) betas[head] = delta.betaScale * logistic(betas[head]);
    float* decays = betas + heads;
    for (size_t i = 0; i < heads * decaysEach; i++) {
      const float rate = decays[i] + layerWeights.decayBias[i], forgotten = forgets[i / decaysEach];
      decays[i] = std::exp(delta.byKey.least == 0 ? -forgotten * softplus(rate)
                                                  : delta.byKey.least * logistic(forgotten * rate));
    }
  });
  const size_t blocks = stateBlocks(valueDim);
  forRows(batch.ranges.size() * heads * blocks, keyDim * kBlockColumns * tokensOfRange(), [&](size_t index, unsigned) {
    const size_t at = index / blocks, head = at % heads,
                 keyHead = delta.tiled ? head % delta.keyHeads : head / (heads / delta.keyHeads);
    const BatchRange& range = batch.ranges[at / heads];
    float* state = remembered[at / heads] + (spec.recurrent.taps - 1) * convolved + head * keyDim * valueDim;
    const StateBlock block = stateBlock(state, keyDim, valueDim, index % blocks);
    const size_t value = head * valueDim + block.first;
    const float* row = activations.mixed + range.firstToken * stride;
    const float* betas = row + convolved + values;
    deltaSteps(block.state, keyDim, block.columns,
               {range.tokens, stride, row + keyHead * keyDim, row + keys + keyHead * keyDim, row + 2 * keys + value,
                betas + head, betas + heads + head * decaysEach, delta.decaysByKey,
                activations.queries + range.firstToken * values + value, values});
  });
  const RowKernels& rows = compute.kernels.rows;
  forRows(tokens() * heads, valueDim, [&](size_t index, unsigned) {
    const size_t t = index / heads, first = index % heads * valueDim;
    float* output = activations.queries + t * values + first;
    float* gate = activations.mixed + t * stride + convolved + first;
    rows.rmsNorm(output, layerWeights.mixNorm, delta.epsilon, valueDim, output);
    if (delta.decaysByKey) {
      for (size_t i = 0; i < valueDim; i++) output[i] *= logistic(gate[i]);
      return;
    }
    rows.activate(Activation::Silu, gate, output, valueDim);
    std::copy_n(gate, valueDim, output);
  });
}

}  // namespace spillway
