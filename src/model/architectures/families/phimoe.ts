import type { DecoderSpec, RouterSpec } from '../../DecoderSpec.js';
import { rotaryFields } from '../configRotary.js';
import { LIMITS, type Fields } from '../Fields.js';
import { biases, gatedFamily } from '../gatedFamily.js';
import { ggufMixture, ggufMixtureWeights, mixtureWeights, withExperts } from '../mixture.js';
import { sameLayers } from '../specs.js';
import { weights } from '../weights.js';

const EXPERT_NAMES = { gate: 'w1', up: 'w3', down: 'w2' } as const;
const sparse = (jitter: number): RouterSpec => ({
  score: 'sparse-mixer',
  jitter,
  normalised: false,
  scale: 1,
  choiceBias: false,
});

/** Published models have a window as long as their context. */
function windowed(decoder: DecoderSpec, config: Fields): DecoderSpec {
  const window = config.integerOrNull('sliding_window', LIMITS.window, null) ?? 0;
  return window >= decoder.contextTokens ? decoder : { ...decoder, layerSpecs: sameLayers(decoder.layers, window) };
}

/** Phi-3.5-MoE: layer norms, biases, experts chosen and weighed by SparseMixer. */
export const phimoe = gatedFamily({
  family: 'phimoe',
  defaults: {
    vocabulary: 32064,
    hidden: 4096,
    feedForward: 6400,
    layers: 32,
    heads: 32,
    kvHeads: 8,
    headDim: null,
    context: 131072,
    epsilon: 1e-5,
    theta: 1e6,
  },
  style: { norm: { kind: 'layer', epsilon: 'rms_norm_eps' } },
  prepare: withOneScale,
  decoder: (decoder, config) =>
    withExperts(windowed(decoder, config), {
      count: config.integer('num_local_experts', LIMITS.experts, 16),
      perToken: config.integer('num_experts_per_tok', LIMITS.experts, 2),
      width: decoder.feedForwardSize,
      router: sparse(config.number('router_jitter_noise', { min: 0, max: 1 }, 0.01)),
    }),
  names: (config) => ({
    ...biases(config.boolean('attention_bias', false), 'q', 'k', 'v', 'o'),
    'norm1.bias': 'input_layernorm.bias',
    'norm2.bias': 'post_attention_layernorm.bias',
    'final_norm.bias': 'norm.bias',
  }),
  weights: (decoder, config) => [
    ...(config.boolean('lm_head_bias', false) ? weights('', { 'head.bias': 'lm_head.bias' }) : []),
    ...mixtureWeights(decoder, {
      router: 'block_sparse_moe.gate.weight',
      expert: (role, expert) => `block_sparse_moe.experts.${expert}.${EXPERT_NAMES[role]}.weight`,
    }),
  ],
  gguf: {
    architecture: 'phimoe',
    rotary: 'halves',
    norm: 'layer',
    decoder(decoder, model) {
      const mixed = ggufMixture(decoder, model, { score: 'softmax', normalised: true });
      const { experts } = mixed.feedForward;
      // The models' own router, which the format cannot say.
      return experts === undefined
        ? mixed
        : { ...mixed, feedForward: { ...mixed.feedForward, experts: { ...experts, router: sparse(0.01) } } };
    },
    names: () => ({
      'norm1.bias': 'attn_norm.bias',
      'norm2.bias': 'ffn_norm.bias',
      'final_norm.bias': 'output_norm.bias',
    }),
    weights: (decoder, model) => [
      ...(model.tensors.has('output.bias') ? weights('', { 'head.bias': 'output.bias' }) : []),
      ...ggufMixtureWeights(decoder, model),
    ],
  },
});

/** LongRoPE with the scales of sines that the model says, which must be one. */
function withOneScale(config: Fields): Fields {
  const settings = rotaryFields(config);
  if (!settings.has('long_mscale')) return config;
  const scale = settings.number('long_mscale', LIMITS.factor);
  if (settings.number('short_mscale', LIMITS.factor) !== scale)
    settings.refuse('short_mscale', `long_mscale, ${scale}`);
  const key = config.child('rope_scaling') ? 'rope_scaling' : 'rope_parameters';
  return config.with({ [key]: { ...(config.raw(key) as object), attention_factor: scale } });
}
