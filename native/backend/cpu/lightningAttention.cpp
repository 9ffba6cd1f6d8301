#include "CpuPass.h"
#include "decay.h"
#include "stateBlocks.h"
#include "stateSteps.h"

namespace spillway {

// Lightning attention (Qin et al. 2024, as MiniMax-Text-01 has it): of a head's query, key and value through SiLU, a
// state that is forgotten at the head's own rate, to which the value is added by the key, and which is read by the
// query; a norm of all heads together, and a gate. Token by token in order, so that chunks change no bit.
void CpuPass::applyLightning(size_t layer) const {
  const LightningSpec& lightning = spec.recurrent.lightning;
  const size_t heads = lightning.heads, headDim = lightning.headDim, values = spec.lightningValues(),
               stride = spec.mixedWidth();
  const ScratchScope scope(*this);
  float** remembered = scratch.take<float*>(batch.ranges.size());
  if (measuring) return;
  rememberedBy(layer, remembered);
  const RowKernels& rows = compute.kernels.rows;
  const std::vector<float>& decays = spec.layerSpecs[layer].decays;
  float* const outputs = activations.queries;
  forRows(tokens(), 3 * values, [&](size_t t, unsigned) {
    rows.activate(Activation::Silu, activations.mixed + t * stride, nullptr, 3 * values);
  });
  const float whole = 1;  // of a value is written
  const size_t blocks = stateBlocks(headDim);
  forRows(batch.ranges.size() * heads * blocks, headDim * kBlockColumns * tokensOfRange(), [&](size_t index, unsigned) {
    const size_t at = index / blocks, head = at % heads;
    const BatchRange& range = batch.ranges[at / heads];
    float* state = remembered[at / heads] + head * headDim * headDim;
    const StateBlock block = stateBlock(state, headDim, headDim, index % blocks);
    const float* query = activations.mixed + range.firstToken * stride + head * 3 * headDim;
    const float *key = query + headDim, *value = key + headDim;
    stateSteps(block.state, headDim, block.columns,
               {range.tokens, stride, value + block.first, key, query, &whole, &decays[head], 0,
                outputs + range.firstToken * values + head * headDim + block.first, values});
  });
  forRows(tokens(), values, [&](size_t t, unsigned) {
    float* output = outputs + t * values;
    const float* gate = activations.mixed + t * stride + 3 * values;
    rows.rmsNorm(output, weights.layer(layer).mixNorm, lightning.epsilon, values, output);
    for (size_t i = 0; i < values; i++) output[i] *= logistic(gate[i]);
  });
}

}  // namespace spillway
