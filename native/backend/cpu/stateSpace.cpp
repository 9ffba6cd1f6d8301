#include <algorithm>

#include "CpuPass.h"
#include "decay.h"
#include "stateBlocks.h"
#include "stateSteps.h"

namespace spillway {

namespace {

// What a state space has projected of a token, by its parts.
void scaleParts(const StateSpaceSpec& space, size_t values, size_t convolved, float* row) {
  const StateSpaceScales& scales = space.scales;
  const size_t shared = size_t(space.groups) * space.stateDim;
  const auto scale = [&row](float by, size_t count) {
    for (size_t i = 0; i < count; i++) row[i] *= by;
    row += count;
  };
  scale(scales.values, values);
  scale(scales.written, shared);
  scale(scales.read, convolved - values - shared);
  scale(scales.gate, values);
  scale(scales.step, space.heads);
}

}  // namespace

// Mamba-2 (Dao and Gu 2024): inputs and what a group of heads writes and reads by through a convolution, each head's
// state by its time step, the input once more beside what the state holds, a gate, and a norm of each group. Token by
// token in order, so that chunks change no bit.
void CpuPass::applyStateSpace(size_t layer) const {
  const StateSpaceSpec& space = spec.recurrent.stateSpace;
  const size_t values = spec.stateValues(), convolved = spec.convolvedWidth(Mixer::StateSpace),
               stride = spec.mixedWidth(), heads = space.heads, headDim = space.headDim, stateDim = space.stateDim,
               groups = space.groups;
  const ScratchScope scope(*this);
  float* rates = scratch.take<float>(heads);
  float* factors = scratch.take<float>(tokens() * 2 * heads);  // of a token all heads' steps, then their decays
  float** remembered = scratch.take<float*>(batch.ranges.size());
  const LayerWeights& layerWeights = weights.layer(layer);
  if (!measuring) {
    rememberedBy(layer, remembered);
    for (size_t head = 0; head < heads; head++) rates[head] = decayRate(spec.recurrent, layerWeights.decay[head]);
  }
  const RowKernels& rows = compute.kernels.rows;
  float* const outputs = spec.layerSpecs[layer].stateBeside ? besideOutputs() : activations.queries;
  if (space.scales.projected())
    forRows(tokens(), stride,
            [&](size_t t, unsigned) { scaleParts(space, values, convolved, activations.mixed + t * stride); });
  convolveMixed(layer, convolved, remembered);
  constexpr size_t kElementsOfHead = 64;  // that a head's step and decay cost as much as
  forRows(tokens(), heads * kElementsOfHead, [&](size_t t, unsigned) {
    const float* projected = activations.mixed + t * stride + convolved + values;
    float* steps = factors + t * 2 * heads;
    for (size_t head = 0; head < heads; head++) {
      steps[head] = std::min(std::max(softplus(projected[head] + layerWeights.decayBias[head]), space.leastTimeStep),
                             space.mostTimeStep);
      steps[heads + head] = std::exp(-rates[head] * steps[head]);
    }
  });
  const size_t blocks = stateBlocks(headDim);
  forRows(batch.ranges.size() * heads * blocks, stateDim * kBlockColumns * tokensOfRange(),
          [&](size_t index, unsigned) {
            const size_t at = index / blocks, head = at % heads, group = head / (heads / groups);
            const BatchRange& range = batch.ranges[at / heads];
            float* state = remembered[at / heads] + (spec.recurrent.taps - 1) * convolved + head * stateDim * headDim;
            const StateBlock block = stateBlock(state, stateDim, headDim, index % blocks);
            const size_t first = head * headDim + block.first;
            const float* row = activations.mixed + range.firstToken * stride;
            const float* written = row + values + group * stateDim;
            const float* steps = factors + range.firstToken * 2 * heads + head;
            float* output = outputs + range.firstToken * values + first;
            stateSteps(block.state, stateDim, block.columns,
                       {range.tokens, stride, row + first, written, written + groups * stateDim, steps, steps + heads,
                        2 * heads, output, values});
            const float skip = layerWeights.skip[head];
            for (size_t t = 0; t < range.tokens; t++)
              for (size_t p = 0; p < block.columns; p++) output[t * values + p] += row[t * stride + first + p] * skip;
          });
  const size_t width = values / groups;
  forRows(tokens() * groups, width, [&](size_t index, unsigned) {
    const size_t first = index % groups * width;
    float* output = outputs + index / groups * values + first;
    float* gate = activations.mixed + index / groups * stride + convolved + first;
    if (space.norm == StateSpaceNorm::First)
      rows.rmsNorm(output, layerWeights.mixNorm + first, spec.normEpsilon, width, output);
    rows.activate(Activation::Silu, gate, output, width);
    if (space.norm == StateSpaceNorm::Gated)
      rows.rmsNorm(gate, layerWeights.mixNorm + first, spec.normEpsilon, width, output);
    else
      std::copy_n(gate, width, output);
    if (space.scales.output != 1) rows.scale(space.scales.output, output, width);
  });
}

}  // namespace spillway
