#include <algorithm>

#include "CpuPass.h"
#include "decay.h"
#include "stateStep.h"

namespace spillway {

namespace {

// What a state space has projected of a token, by its parts.
void scaleParts(const RecurrentSpec& space, size_t values, size_t convolved, float* row) {
  const StateSpaceScales& scales = space.stateScales;
  const size_t shared = size_t(space.stateGroups) * space.stateDim;
  const auto scale = [&row](float by, size_t count) {
    for (size_t i = 0; i < count; i++) row[i] *= by;
    row += count;
  };
  scale(scales.values, values);
  scale(scales.written, shared);
  scale(scales.read, convolved - values - shared);
  scale(scales.gate, values);
  scale(scales.step, space.stateHeads);
}

}  // namespace

// Mamba-2 (Dao and Gu 2024): inputs and what a group of heads writes and reads by through a convolution, each head's
// state by its time step, the input once more beside what the state holds, a gate, and a norm of each group. Token by
// token in order, so that chunks change no bit.
void CpuPass::applyStateSpace(size_t layer) const {
  const RecurrentSpec& space = spec.recurrent;
  const size_t values = spec.stateValues(), convolved = spec.convolvedWidth(Mixer::StateSpace),
               stride = spec.mixedWidth(), heads = space.stateHeads, headDim = space.stateHeadDim,
               stateDim = space.stateDim, groups = space.stateGroups;
  const ScratchScope scope(*this);
  float* inputs = scratch.take<float>(compute.pool.threads() * headDim);
  float** remembered = scratch.take<float*>(batch.ranges.size());
  if (measuring) return;
  rememberedBy(layer, remembered);
  const LayerWeights& layerWeights = weights.layer(layer);
  const RowKernels& rows = compute.kernels.rows;
  float* const outputs = spec.layerSpecs[layer].stateBeside ? besideOutputs() : activations.queries;
  if (space.stateScales.projected())
    forRows(tokens(), stride,
            [&](size_t t, unsigned) { scaleParts(space, values, convolved, activations.mixed + t * stride); });
  convolveMixed(layer, convolved, remembered);
  const size_t stateFloats = stateDim * headDim, tokensEach = tokensOfRange();
  forRows(batch.ranges.size() * heads, stateFloats * tokensEach, [&](size_t index, unsigned worker) {
    const BatchRange& range = batch.ranges[index / heads];
    const size_t head = index % heads, group = head / (heads / groups);
    float* input = inputs + worker * headDim;
    float* state = remembered[index / heads] + (space.taps - 1) * convolved + head * stateFloats;
    const float rate = decayRate(space, layerWeights.decay[head]), skip = layerWeights.skip[head];
    for (size_t t = range.firstToken; t < size_t(range.firstToken) + range.tokens; t++) {
      const float* row = activations.mixed + t * stride;
      const float* written = row + values + group * stateDim;
      const float step = std::min(
          std::max(softplus(row[convolved + values + head] + layerWeights.decayBias[head]), space.leastTimeStep),
          space.mostTimeStep);
      for (size_t p = 0; p < headDim; p++) input[p] = row[head * headDim + p] * step;
      float* output = outputs + t * values + head * headDim;
      stateStep(state, input, written, written + groups * stateDim, std::exp(-rate * step), stateDim, headDim, output);
      for (size_t p = 0; p < headDim; p++) output[p] += row[head * headDim + p] * skip;
    }
  });
  const size_t width = values / groups;
  forRows(tokens() * groups, width, [&](size_t index, unsigned) {
    const size_t first = index % groups * width;
    float* output = outputs + index / groups * values + first;
    float* gate = activations.mixed + index / groups * stride + convolved + first;
    if (space.stateNorm == StateSpaceNorm::First)
      rows.rmsNorm(output, layerWeights.mixNorm + first, spec.normEpsilon, width, output);
    rows.activate(Activation::Silu, gate, output, width);
    if (space.stateNorm == StateSpaceNorm::Gated)
      rows.rmsNorm(gate, layerWeights.mixNorm + first, spec.normEpsilon, width, output);
    else
      std::copy_n(gate, width, output);
    if (space.stateScales.output != 1) rows.scale(space.stateScales.output, output, width);
  });
}

}  // namespace spillway
