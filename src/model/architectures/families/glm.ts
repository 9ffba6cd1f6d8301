import type { DecoderSpec } from '../../DecoderSpec.js';
import { LLAMA_LAYER, type GatedDefaults } from '../gatedDecoder.js';
import { biases, gatedFamily, type Renamed } from '../gatedFamily.js';
import type { GgufModel, WeightSource } from '../Family.js';
import { fusedGateUp, fusedQueryKeyValue, GGUF_LAYER } from '../weights.js';

const DEFAULTS: GatedDefaults = {
  vocabulary: 151552,
  hidden: 4096,
  feedForward: 13696,
  layers: 40,
  heads: 32,
  kvHeads: 2,
  headDim: 128,
  context: 131072,
  epsilon: 1.5625e-7,
  theta: 10000,
};
const STYLE = { rotary: { style: 'pairs', share: 0.5 } } as const;
const FUSED: Renamed = { 'gate.weight': undefined, 'up.weight': undefined };

const gateUp = ({ feedForwardSize }: DecoderSpec): WeightSource[] =>
  fusedGateUp(`${LLAMA_LAYER}mlp.gate_up_proj.weight`, feedForwardSize);
const ggufGateUp = ({ feedForwardSize }: DecoderSpec): WeightSource[] =>
  fusedGateUp(`${GGUF_LAYER}ffn_up.weight`, feedForwardSize);
const isFused = ({ tensors }: GgufModel): boolean => tensors.has('blk.0.attn_qkv.weight');
const NOT_APART: Renamed = Object.fromEntries(
  (['q', 'k', 'v'] as const).flatMap((role) => [
    [`${role}.weight`, undefined],
    [`${role}.bias`, undefined],
  ]),
);
const fusedAttention = (decoder: DecoderSpec, model: GgufModel): WeightSource[] =>
  isFused(model)
    ? [
        ...fusedQueryKeyValue(`${GGUF_LAYER}attn_qkv`, decoder, 1, ['weight']),
        ...fusedQueryKeyValue(`${GGUF_LAYER}attn_qkv`, decoder, 1, ['bias'], { optional: true }),
      ]
    : [];

/** GLM-4 (9B) and GLM-Edge: the first half of each head rotates, neighbours together; gate and up are one tensor. */
export const glm = gatedFamily({
  family: 'glm',
  defaults: DEFAULTS,
  style: STYLE,
  names: (config) => ({ ...FUSED, ...biases(config.boolean('attention_bias', true), 'q', 'k', 'v') }),
  weights: gateUp,
  gguf: {
    architecture: 'chatglm',
    rotary: 'pairs',
    names: (model) => ({ ...FUSED, ...(isFused(model) && NOT_APART) }),
    weights: (decoder, model) => [...ggufGateUp(decoder), ...fusedAttention(decoder, model)],
  },
});

const sandwiched = (decoder: DecoderSpec): DecoderSpec => ({ ...decoder, residual: 'sandwich' });

/** GLM-4-0414: the same with norms after the branches, too. */
export const glm4 = gatedFamily({
  family: 'glm4',
  defaults: DEFAULTS,
  style: STYLE,
  decoder: sandwiched,
  names: (config) => ({
    ...FUSED,
    ...biases(config.boolean('attention_bias', true), 'q', 'k', 'v'),
    'post_norm1.weight': 'post_self_attn_layernorm.weight',
    'post_norm2.weight': 'post_mlp_layernorm.weight',
  }),
  weights: gateUp,
  gguf: {
    architecture: 'glm4',
    rotary: 'pairs',
    decoder: sandwiched,
    names: (model) => ({
      ...FUSED,
      ...(isFused(model) && NOT_APART),
      'post_norm1.weight': 'post_attention_norm.weight',
      'post_norm2.weight': 'post_ffw_norm.weight',
    }),
    weights: (decoder, model) => [...ggufGateUp(decoder), ...fusedAttention(decoder, model)],
  },
});
