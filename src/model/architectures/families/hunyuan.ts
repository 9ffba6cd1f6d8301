import type { DecoderSpec } from '../../DecoderSpec.js';
import { LIMITS, type Fields } from '../Fields.js';
import type { GatedDefaults } from '../gatedDecoder.js';
import { rotaryFields, rotaryTheta } from '../configRotary.js';
import { biases, gatedFamily, type Renamed } from '../gatedFamily.js';
import { ggufMixture, ggufMixtureWeights, MLP_EXPERTS, mixtureWeights, withExperts } from '../mixture.js';
import { defaultFrequencies } from '../rotaryFrequencies.js';
import { rotary } from '../specs.js';
import { GGUF_HEAD_NORMS } from './olmo2.js';

const DEFAULTS: GatedDefaults = {
  vocabulary: 290943,
  hidden: 4096,
  feedForward: 11008,
  layers: 32,
  heads: 32,
  kvHeads: null,
  headDim: null,
  context: 2048,
  epsilon: 1e-5,
  theta: 10000,
};
const NORMS: Renamed = {
  'q_norm.weight': 'self_attn.query_layernorm.weight',
  'k_norm.weight': 'self_attn.key_layernorm.weight',
};

const normed = (decoder: DecoderSpec): DecoderSpec => ({
  ...decoder,
  attention: { ...decoder.attention, qkNorm: 'rotated' },
});

/** Where it says `alpha`, the rotary base is stretched once for all lengths. */
function stretched(decoder: DecoderSpec, config: Fields): DecoderSpec {
  const settings = rotaryFields(config);
  const alpha = settings.numberOrNull('alpha', { min: 0, max: LIMITS.factor.max }) ?? 0;
  const { headDim } = decoder;
  if (alpha === 0 || settings.raw(settings.has('rope_type') ? 'rope_type' : 'type') !== 'dynamic') return decoder;
  const base = rotaryTheta(settings, config, 'rope_theta', DEFAULTS.theta) * alpha ** (headDim / (headDim - 2));
  return {
    ...decoder,
    position: rotary('halves', headDim, { frequencies: defaultFrequencies(base, headDim), scale: 1 }),
  };
}

/** Hunyuan, dense: norms over heads stand after the rotation. */
export const hunyuanDense = gatedFamily({
  family: 'hunyuan_v1_dense',
  defaults: DEFAULTS,
  decoder: (decoder, config) => normed(stretched(decoder, config)),
  names: (config) => ({ ...NORMS, ...biases(config.boolean('attention_bias', false), 'q', 'k', 'v', 'o') }),
  gguf: {
    architecture: 'hunyuan-dense',
    rotary: 'halves',
    decoder: normed,
    names: () => GGUF_HEAD_NORMS,
  },
});

/** Its mixtures (A13B): a block beside the experts in each layer. */
export const hunyuanMoe = gatedFamily({
  family: 'hunyuan_v1_moe',
  defaults: DEFAULTS,
  decoder: (decoder, config) =>
    withExperts(normed(stretched(decoder, config)), {
      count: sameEverywhere(config, 'num_experts', 1),
      perToken: sameEverywhere(config, 'moe_topk', 1),
      width: decoder.feedForwardSize,
      shared: { size: decoder.feedForwardSize, gate: false },
    }),
  names: (config) => ({ ...NORMS, ...biases(config.boolean('attention_bias', false), 'q', 'k', 'v', 'o') }),
  weights: (decoder) =>
    mixtureWeights(decoder, {
      ...MLP_EXPERTS,
      router: 'mlp.gate.wg.weight',
      shared: (role) => `mlp.shared_mlp.${role}_proj.weight`,
    }),
  gguf: {
    architecture: 'hunyuan-moe',
    rotary: 'halves',
    decoder: (decoder, model) => ggufMixture(normed(decoder), model, { score: 'softmax', normalised: true }),
    names: () => GGUF_HEAD_NORMS,
    weights: ggufMixtureWeights,
  },
});

/** One number, or as many equal ones as there are layers. */
function sameEverywhere(config: Fields, key: string, otherwise: number): number {
  return config.uniformInteger(key, LIMITS.experts, otherwise);
}
