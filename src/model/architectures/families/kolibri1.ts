import { LIMITS } from '../Fields.js';
import { gatedFamily } from '../gatedFamily.js';
import { MLP_EXPERTS, mixtureWeights, withExperts } from '../mixture.js';
import { slidingLayers, unrotated, windowedLayers } from '../slidingLayers.js';
import { withQueryKeyNorm } from '../specs.js';
import { HEAD_NORMS } from './olmo2.js';

/** Every fifth layer sees all tokens, and does not rotate. */
const PATTERN = 5;

/** Kolibri: norms round both branches and over heads, a logistic router whose choice is by logits and a bias. */
export const kolibri1 = gatedFamily({
  family: 'kolibri1',
  defaults: {
    vocabulary: 128000,
    hidden: 2560,
    feedForward: 512,
    layers: 50,
    heads: 48,
    kvHeads: 4,
    headDim: 128,
    context: 262144,
    epsilon: 1e-6,
    theta: 10000,
  },
  decoder(decoder, config) {
    const sliding = slidingLayers(config, decoder.layers, (layer) => (layer + 1) % PATTERN !== 0);
    const window = config.integerOrNull('sliding_window', LIMITS.window, 513);
    const layers = windowedLayers(config, sliding, window);
    const normed = {
      ...withQueryKeyNorm(decoder),
      residual: 'sandwich' as const,
      layerSpecs: window === null ? layers : unrotated(layers, (layer) => sliding[layer] === true),
    };
    return withExperts(normed, {
      count: config.integer(config.has('num_experts') ? 'num_experts' : 'num_local_experts', LIMITS.experts, 384),
      perToken: config.integer('num_experts_per_tok', LIMITS.experts, 6),
      width: config.integer('moe_intermediate_size', LIMITS.feedForward, 512),
      router: {
        score: 'sigmoid',
        normalised: config.boolean('norm_topk_prob', false),
        scale: 1,
        choiceBias: true,
        choosesByLogits: true,
      },
      shared: { size: config.integer('shared_expert_intermediate_size', LIMITS.feedForward, 512), gate: false },
    });
  },
  names: () => ({
    ...HEAD_NORMS,
    'post_norm1.weight': 'post_attn_norm.weight',
    'post_norm2.weight': 'post_ffn_norm.weight',
  }),
  weights: (decoder) => mixtureWeights(decoder, { ...MLP_EXPERTS, choiceBias: 'moe.router.expert_bias' }),
});
