import { LIMITS } from '../Fields.js';
import { LLAMA_LAYER, type GatedDefaults } from '../gatedDecoder.js';
import { biases, gatedFamily } from '../gatedFamily.js';
import { denseQwenLayers, MLP_EXPERTS, mixtureWeights, SOFTMAX_AS_IT_IS, withExperts } from '../mixture.js';
import { slidingLayers, unrotated, windowedLayers } from '../slidingLayers.js';
import { withQueryKeyNorm } from '../specs.js';
import { HEAD_NORMS } from './olmo2.js';

const DEFAULTS: GatedDefaults = {
  vocabulary: 150144,
  hidden: 2048,
  feedForward: 6144,
  layers: 49,
  heads: 32,
  kvHeads: 4,
  headDim: 128,
  context: 262144,
  epsilon: 1e-6,
  theta: 10000,
};

/** Flint: windows that rotate among layers that see everything and do not, sinks, and experts beside a shared block. */
export const flint = gatedFamily({
  family: 'flint',
  defaults: DEFAULTS,
  prepare: (config) => config.withDefaults({ mlp_only_layers: [0, 1] }),
  decoder(decoder, config) {
    const last = decoder.layers - 1;
    const sliding = slidingLayers(config, decoder.layers, (layer) => layer >= 2 && layer % 4 !== 1 && layer !== last);
    const windowed = windowedLayers(config, sliding, config.integer('sliding_window', LIMITS.window, 513));
    const normed = withQueryKeyNorm(decoder);
    return withExperts(
      {
        ...normed,
        attention: { ...normed.attention, sinks: true },
        layerSpecs: unrotated(windowed, (layer) => sliding[layer] === true),
      },
      {
        count: config.integer(config.has('num_experts') ? 'num_experts' : 'num_local_experts', LIMITS.experts, 256),
        perToken: config.integer('num_experts_per_tok', LIMITS.experts, 6),
        width: config.integer('moe_intermediate_size', LIMITS.feedForward, 512),
        router: { ...SOFTMAX_AS_IT_IS, score: 'sigmoid', normalised: config.boolean('norm_topk_prob', true) },
        shared: { size: config.integer('shared_expert_intermediate_size', LIMITS.feedForward, 1024), gate: false },
        dense: denseQwenLayers(config, decoder.layers),
      },
    );
  },
  names: (config) => ({
    ...HEAD_NORMS,
    ...biases(config.boolean('attention_bias', false), 'q', 'k', 'v', 'o'),
  }),
  weights: (decoder) => [
    // As checkpoints, and as transformers 5 call it.
    { role: 'sinks', tensor: `${LLAMA_LAYER}self_attn.softmax_offset`, otherwise: `${LLAMA_LAYER}self_attn.sinks` },
    ...mixtureWeights(decoder, { ...MLP_EXPERTS, shared: (role) => `mlp.shared_expert.${role}_proj.weight` }),
  ],
});
