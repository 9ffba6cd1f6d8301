import type { DecoderSpec } from '../../DecoderSpec.js';
import type { WeightSource } from '../Family.js';
import type { GatedDefaults } from '../gatedDecoder.js';
import { biases, gatedFamily } from '../gatedFamily.js';
import { activation } from '../specs.js';
import { fusedQueryKeyValue, GGUF_LAYER, weights } from '../weights.js';

const DEFAULTS: GatedDefaults = {
  vocabulary: 51200,
  hidden: 2048,
  feedForward: 8192,
  layers: 24,
  heads: 32,
  kvHeads: null,
  headDim: null,
  context: 2048,
  epsilon: 1e-5,
  theta: 10000,
};
/** Phi-1, 1.5 and 2: parallel branches after one layer norm, biases throughout, one on logits too. */
export const phi = gatedFamily({
  family: 'phi',
  defaults: DEFAULTS,
  style: { norm: { kind: 'layer', epsilon: 'layer_norm_eps' }, rotary: { style: 'halves', share: 0.5 } },
  decoder(decoder, config) {
    if (config.boolean('qk_layernorm', false)) config.refuse('qk_layernorm', 'false: no published model has it');
    return {
      ...decoder,
      residual: 'parallel',
      feedForward: { kind: 'plain', activation: activation(config, 'hidden_act', 'gelu_new') },
    };
  },
  names: () => ({
    ...biases(true, 'q', 'k', 'v'),
    'o.weight': 'self_attn.dense.weight',
    'o.bias': 'self_attn.dense.bias',
    'norm1.bias': 'input_layernorm.bias',
    'norm2.weight': undefined,
    'final_norm.weight': 'final_layernorm.weight',
    'final_norm.bias': 'final_layernorm.bias',
    'gate.weight': undefined,
    'up.weight': 'mlp.fc1.weight',
    'up.bias': 'mlp.fc1.bias',
    'down.weight': 'mlp.fc2.weight',
    'down.bias': 'mlp.fc2.bias',
  }),
  weights: () => weights('', { 'head.bias': 'lm_head.bias' }),
  gguf: {
    architecture: 'phi2',
    rotary: 'halves',
    norm: 'layer',
    decoder: (decoder) => ({
      ...decoder,
      residual: 'parallel',
      feedForward: { kind: 'plain', activation: 'gelu-tanh' },
    }),
    names: ({ tensors }) => ({
      ...(tensors.has('blk.0.attn_qkv.weight') && {
        'q.weight': undefined,
        'q.bias': undefined,
        'k.weight': undefined,
        'k.bias': undefined,
        'v.weight': undefined,
        'v.bias': undefined,
      }),
      'norm1.bias': 'attn_norm.bias',
      'norm2.weight': undefined,
      'final_norm.bias': 'output_norm.bias',
      'gate.weight': undefined,
      'up.bias': 'ffn_up.bias',
      'down.bias': 'ffn_down.bias',
    }),
    weights: (decoder, { tensors }) => [
      ...(tensors.has('blk.0.attn_qkv.weight') ? fused(decoder) : []),
      ...weights('', { 'head.bias': 'output.bias' }),
    ],
  },
});

const fused = (decoder: DecoderSpec): WeightSource[] =>
  fusedQueryKeyValue(`${GGUF_LAYER}attn_qkv`, decoder, 1, ['weight', 'bias']);
