import { LIMITS, type Fields } from '../Fields.js';
import type { GatedDefaults } from '../gatedDecoder.js';
import { biases, gatedFamily } from '../gatedFamily.js';
import { ggufMixture, ggufMixtureWeights, mixtureWeights, SOFTMAX_AS_IT_IS, withExperts } from '../mixture.js';
import type { DecoderSpec } from '../../DecoderSpec.js';
import { BRANCH_NORMS, GGUF_HEAD_NORMS, HEAD_NORMS } from './olmo2.js';

const DEFAULTS: GatedDefaults = {
  vocabulary: 50304,
  hidden: 2048,
  feedForward: 2048,
  layers: 16,
  heads: 16,
  kvHeads: null,
  headDim: null,
  context: 4096,
  epsilon: 1e-5,
  theta: 10000,
};
const normed = (decoder: DecoderSpec): DecoderSpec => ({
  ...decoder,
  attention: { ...decoder.attention, qkNorm: 'row' },
});

const mixed = (decoder: DecoderSpec, config: Fields, perToken: number, count: number): DecoderSpec =>
  withExperts(normed(decoder), {
    count: config.integer('num_experts', LIMITS.experts, count),
    perToken: config.integer('num_experts_per_tok', LIMITS.experts, perToken),
    width: decoder.feedForwardSize,
    router: { ...SOFTMAX_AS_IT_IS, normalised: config.boolean('norm_topk_prob', false) },
  });

/** OLMoE: norms over all heads, experts whose weights are a softmax's as they are. */
export const olmoe = gatedFamily({
  family: 'olmoe',
  defaults: DEFAULTS,
  decoder(decoder, config) {
    if ((config.raw('clip_qkv') ?? null) !== null)
      config.refuse('clip_qkv', 'null: what is clipped here would be clipped before its norm');
    return mixed(decoder, config, 8, 64);
  },
  names: (config) => ({ ...HEAD_NORMS, ...biases(config.boolean('attention_bias', false), 'q', 'k', 'v', 'o') }),
  weights: (decoder) => mixtureWeights(decoder),
  gguf: {
    architecture: 'olmoe',
    rotary: 'halves',
    decoder: (decoder, model) => ggufMixture(normed(decoder), model, { score: 'softmax', normalised: false }),
    names: () => GGUF_HEAD_NORMS,
    weights: ggufMixtureWeights,
  },
});

/** FlexOlmo: OLMoE with OLMo 2's norms after branches. */
export const flexOlmo = gatedFamily({
  family: 'flex_olmo',
  defaults: {
    ...DEFAULTS,
    vocabulary: 100352,
    hidden: 4096,
    feedForward: 11008,
    layers: 32,
    heads: 32,
    epsilon: 1e-6,
    theta: 500000,
  },
  decoder: (decoder, config) => ({ ...mixed(decoder, config, 5, 7), residual: 'branch' }),
  names: (config) => ({
    ...BRANCH_NORMS,
    ...HEAD_NORMS,
    ...biases(config.boolean('attention_bias', false), 'q', 'k', 'v', 'o'),
  }),
  weights: (decoder) => mixtureWeights(decoder),
});
