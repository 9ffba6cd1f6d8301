import { LIMITS } from '../Fields.js';
import type { GatedDefaults } from '../gatedDecoder.js';
import { biases, blockBiases, gatedFamily } from '../gatedFamily.js';
import { ggufMixture, ggufMixtureWeights, MLP_EXPERTS, mixtureWeights, withExperts } from '../mixture.js';

const DEFAULTS: GatedDefaults = {
  vocabulary: 103424,
  hidden: 1024,
  feedForward: 3072,
  layers: 18,
  heads: 16,
  kvHeads: 2,
  headDim: 128,
  context: 131072,
  epsilon: 1e-5,
  theta: 500000,
};
const STYLE = { rotary: { style: 'pairs' } } as const;

/** ERNIE 4.5: LLaMA whose neighbours rotate together. */
export const ernie45 = gatedFamily({
  family: 'ernie4_5',
  defaults: DEFAULTS,
  style: STYLE,
  tied: true,
  names: (config) => {
    const biased = config.boolean('use_bias', false);
    return { ...biases(biased, 'q', 'k', 'v', 'o'), ...blockBiases(biased, 'gate', 'up', 'down') };
  },
  gguf: { architecture: 'ernie4_5', rotary: 'pairs' },
});

/** Its mixtures: a softmax whose choice has a bias, blocks beside the experts, some layers without any. */
export const ernie45Moe = gatedFamily({
  family: 'ernie4_5_moe',
  defaults: { ...DEFAULTS, hidden: 2560, feedForward: 12288, layers: 28, heads: 20, kvHeads: 4, headDim: null },
  style: STYLE,
  tied: true,
  decoder(decoder, config) {
    if (config.boolean('use_bias', false)) config.refuse('use_bias', 'false: experts with biases are not read here');
    // What weights are divided by at least: no sum of the best few of a softmax is as small.
    config.number('moe_norm_min', { min: 0, max: 1e-6 }, 1e-12);
    const width = config.integer('moe_intermediate_size', LIMITS.feedForward, 1536);
    const layer = { min: 0, max: LIMITS.layers.max };
    const first = config.integer('moe_layer_start_index', layer, 1);
    const last = config.integer('moe_layer_end_index', { min: -1, max: layer.max }, decoder.layers - 1);
    const step = config.integer('moe_layer_interval', LIMITS.layers, 1);
    return withExperts(decoder, {
      count: config.integer('moe_num_experts', LIMITS.experts, 64),
      perToken: config.integer('moe_k', LIMITS.experts, 6),
      width,
      router: { score: 'softmax', normalised: true, scale: 1, choiceBias: true },
      shared: {
        size: width * config.integer('moe_num_shared_experts', { min: 0, max: LIMITS.experts.max }, 2),
        gate: false,
      },
      dense: (at) => (at + 1) % step !== 0 || at < first || at > (last === -1 ? decoder.layers - 1 : last),
    });
  },
  weights: (decoder) =>
    mixtureWeights(decoder, { ...MLP_EXPERTS, choiceBias: 'mlp.moe_statics.e_score_correction_bias' }),
  gguf: {
    architecture: 'ernie4_5-moe',
    rotary: 'pairs',
    decoder: (decoder, model) => ggufMixture(decoder, model, { score: 'softmax', normalised: true }),
    weights: ggufMixtureWeights,
  },
});
