import { LIMITS } from '../Fields.js';
import type { GatedDefaults } from '../gatedDecoder.js';
import { biases, gatedFamily } from '../gatedFamily.js';
import {
  denseQwenLayers,
  ggufMixture,
  ggufMixtureWeights,
  MLP_EXPERTS,
  mixtureWeights,
  SOFTMAX_AS_IT_IS,
  withExperts,
} from '../mixture.js';
import { qwenLayers } from '../slidingLayers.js';

const DEFAULTS: GatedDefaults = {
  vocabulary: 151936,
  hidden: 2048,
  feedForward: 5632,
  layers: 24,
  heads: 16,
  kvHeads: 16,
  headDim: null,
  context: 32768,
  epsilon: 1e-6,
  theta: 10000,
};
/** Qwen 1.5 and 2 with experts, and beside them a block that a gate weighs. */
export const qwen2Moe = gatedFamily({
  family: 'qwen2_moe',
  defaults: DEFAULTS,
  decoder: (decoder, config) =>
    withExperts(
      { ...decoder, layerSpecs: qwenLayers(config, decoder.layers) },
      {
        count: config.integer(config.has('num_experts') ? 'num_experts' : 'num_local_experts', LIMITS.experts, 60),
        perToken: config.integer('num_experts_per_tok', LIMITS.experts, 4),
        width: config.integer('moe_intermediate_size', LIMITS.feedForward, 1408),
        router: { ...SOFTMAX_AS_IT_IS, normalised: config.boolean('norm_topk_prob', false) },
        shared: { size: config.integer('shared_expert_intermediate_size', LIMITS.feedForward, 5632), gate: true },
        dense: denseQwenLayers(config, decoder.layers),
      },
    ),
  names: (config) => biases(config.boolean('qkv_bias', true), 'q', 'k', 'v'),
  weights: (decoder) =>
    mixtureWeights(decoder, {
      ...MLP_EXPERTS,
      shared: (role) => `mlp.shared_expert.${role}_proj.weight`,
      sharedGate: 'mlp.shared_expert_gate.weight',
    }),
  gguf: {
    architecture: 'qwen2moe',
    rotary: 'halves',
    decoder: (decoder, model) => ggufMixture(decoder, model, { score: 'softmax', normalised: false, sharedGate: true }),
    weights: ggufMixtureWeights,
  },
});
