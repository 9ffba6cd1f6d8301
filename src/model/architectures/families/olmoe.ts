import { LIMITS } from '../Fields.js';
import type { GatedDefaults } from '../gatedDecoder.js';
import { biases, gatedFamily } from '../gatedFamily.js';
import { ggufMixture, ggufMixtureWeights, mixtureWeights, SOFTMAX_AS_IT_IS, withExperts } from '../mixture.js';
import type { DecoderSpec } from '../../DecoderSpec.js';
import { GGUF_HEAD_NORMS, HEAD_NORMS } from './olmo2.js';

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

/** OLMoE: norms over all heads, experts whose weights are a softmax's as they are. */
export const olmoe = gatedFamily({
  family: 'olmoe',
  defaults: DEFAULTS,
  decoder(decoder, config) {
    if ((config.raw('clip_qkv') ?? null) !== null) config.refuse('clip_qkv', 'null: queries and keys are not clipped');
    return withExperts(normed(decoder), {
      count: config.integer('num_experts', LIMITS.experts, 64),
      perToken: config.integer('num_experts_per_tok', LIMITS.experts, 8),
      width: decoder.feedForwardSize,
      router: { ...SOFTMAX_AS_IT_IS, normalised: config.boolean('norm_topk_prob', false) },
    });
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
