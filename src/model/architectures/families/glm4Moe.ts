import type { DecoderSpec } from '../../DecoderSpec.js';
import { LIMITS, type Fields } from '../Fields.js';
import type { GatedDefaults } from '../gatedDecoder.js';
import { biases, gatedFamily } from '../gatedFamily.js';
import { ggufMixture, ggufMixtureWeights, mixtureWeights, sigmoidRouter, withExperts } from '../mixture.js';
import { skipNextTokenLayers } from '../nextTokenLayers.js';
import { slidingLayers, windowedLayers } from '../slidingLayers.js';
import { withQueryKeyNorm } from '../specs.js';
import { GGUF_HEAD_NORMS, HEAD_NORMS } from './olmo2.js';

const DEFAULTS: GatedDefaults = {
  vocabulary: 151552,
  hidden: 4096,
  feedForward: 10944,
  layers: 46,
  heads: 96,
  kvHeads: 8,
  headDim: null,
  context: 131072,
  epsilon: 1e-5,
  theta: 10000,
};
/** Sizes that differ from class to class. */
interface MixtureDefaults {
  readonly width: number;
  readonly count: number;
  readonly perToken: number;
  readonly shared: number;
  readonly dense: number;
  readonly normalised: boolean;
}

/** Experts as DeepSeek V3 has them, in a decoder of this attention. */
function withDeepExperts(decoder: DecoderSpec, config: Fields, otherwise: MixtureDefaults): DecoderSpec {
  const width = config.integer('moe_intermediate_size', LIMITS.feedForward, otherwise.width);
  const dense = config.integer('first_k_dense_replace', { min: 0, max: LIMITS.layers.max }, otherwise.dense);
  const shared = config.integerOrNull('n_shared_experts', { min: 0, max: LIMITS.experts.max }, otherwise.shared) ?? 0;
  return withExperts(decoder, {
    count: config.integer('n_routed_experts', LIMITS.experts, otherwise.count),
    perToken: config.integer('num_experts_per_tok', LIMITS.experts, otherwise.perToken),
    width,
    router: sigmoidRouter(config, otherwise.normalised),
    shared: { size: width * shared, gate: false },
    dense: (layer) => layer < dense,
  });
}

const GGUF = {
  rotary: 'halves',
  weights: ggufMixtureWeights,
} as const;

/** GLM-4.5, 4.6 and 4.7: grouped attention with partial rotation; experts by a logistic router with a bias. */
export const glm4Moe = gatedFamily({
  family: 'glm4_moe',
  defaults: DEFAULTS,
  style: { rotary: { style: 'halves', share: 0.5 } },
  decoder(decoder, config) {
    const normed = config.boolean('use_qk_norm', false) ? withQueryKeyNorm(decoder) : decoder;
    const otherwise = { width: 1408, count: 128, perToken: 8, shared: 1, dense: 1, normalised: true };
    return withDeepExperts(normed, config, otherwise);
  },
  names: (config, { attention }) => ({
    ...biases(config.boolean('attention_bias', false), 'q', 'k', 'v'),
    ...(attention.qkNorm !== 'none' && HEAD_NORMS),
  }),
  weights: (decoder) => mixtureWeights(decoder),
  gguf: {
    ...GGUF,
    architecture: 'glm4moe',
    decoder(decoder, model) {
      const normed = model.tensors.has('blk.0.attn_q_norm.weight') ? withQueryKeyNorm(decoder) : decoder;
      return ggufMixture(skipNextTokenLayers(normed, model), model, { score: 'sigmoid', normalised: true });
    },
    names: (_, { attention }) => ({
      'norm2.weight': 'post_attention_norm.weight',
      ...(attention.qkNorm !== 'none' && GGUF_HEAD_NORMS),
    }),
  },
});

/** dots.llm1: norms over heads, perhaps windows, experts as DeepSeek V3 has them. */
export const dots1 = gatedFamily({
  family: 'dots1',
  defaults: {
    ...DEFAULTS,
    vocabulary: 152064,
    hidden: 4608,
    layers: 62,
    heads: 32,
    kvHeads: 32,
    context: 2048,
    epsilon: 1e-6,
  },
  decoder(decoder, config) {
    const window = config.integerOrNull('sliding_window', LIMITS.window, 4096);
    const first = config.integer('max_window_layers', { min: 0, max: 2 ** 31 - 1 }, 62);
    const sliding = slidingLayers(config, decoder.layers, (layer) => window !== null && layer >= first);
    const layered = { ...withQueryKeyNorm(decoder), layerSpecs: windowedLayers(config, sliding, window) };
    const otherwise = { width: 1408, count: 128, perToken: 6, shared: 0, dense: 0, normalised: false };
    return withDeepExperts(layered, config, otherwise);
  },
  names: (config) => ({ ...biases(config.boolean('attention_bias', false), 'q', 'k', 'v', 'o'), ...HEAD_NORMS }),
  weights: (decoder) => mixtureWeights(decoder),
  gguf: {
    ...GGUF,
    architecture: 'dots1',
    decoder: (decoder, model) => ggufMixture(withQueryKeyNorm(decoder), model, { score: 'sigmoid', normalised: false }),
    names: () => GGUF_HEAD_NORMS,
  },
});

/** Solar Open: experts in each layer. */
export const solarOpen = gatedFamily({
  family: 'solar_open',
  defaults: { ...DEFAULTS, vocabulary: 196608, layers: 48, heads: 64, headDim: 128, theta: 1e6 },
  style: { rotary: { style: 'halves', share: 1 } },
  decoder(decoder, config) {
    const otherwise = { width: 1280, count: 128, perToken: 8, shared: 1, dense: 0, normalised: true };
    return withDeepExperts(decoder, config, otherwise);
  },
  names: (config) => biases(config.boolean('attention_bias', false), 'q', 'k', 'v', 'o'),
  weights: (decoder) => mixtureWeights(decoder),
});
