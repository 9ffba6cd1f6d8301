import { normsLessOne, PRE_NORMS, type GatedDefaults } from '../gatedDecoder.js';
import { biases, blockBiases, gatedFamily } from '../gatedFamily.js';
import { activation } from '../specs.js';

const DEFAULTS: GatedDefaults = {
  vocabulary: 256000,
  hidden: 6144,
  feedForward: 24576,
  layers: 32,
  heads: 48,
  kvHeads: null,
  headDim: 128,
  context: 4096,
  epsilon: 1e-5,
  theta: 10000,
};
/** Nemotron and Minitron: layer norms stored less 1, partial rotation, a squared ReLU without gate. */
export const nemotron = gatedFamily({
  family: 'nemotron',
  defaults: DEFAULTS,
  style: { norm: { kind: 'layer', epsilon: 'norm_eps' }, rotary: { style: 'halves', share: 0.5 } },
  decoder: (decoder, config) => ({
    ...decoder,
    feedForward: { kind: 'plain', activation: activation(config, 'hidden_act', 'relu2') },
  }),
  names: (config) => ({
    ...biases(config.boolean('attention_bias', false), 'q', 'k', 'v', 'o'),
    ...blockBiases(config.boolean('mlp_bias', false), 'up', 'down'),
    'gate.weight': undefined,
    'norm1.weight': undefined,
    'norm1.bias': 'input_layernorm.bias',
    'norm2.weight': undefined,
    'norm2.bias': 'post_attention_layernorm.bias',
    'final_norm.weight': undefined,
    'final_norm.bias': 'norm.bias',
  }),
  weights: () => [...normsLessOne(PRE_NORMS)],
  gguf: {
    architecture: 'nemotron',
    rotary: 'halves',
    norm: 'layer',
    decoder: (decoder) => ({ ...decoder, feedForward: { kind: 'plain', activation: 'relu-squared' } }),
    names: ({ tensors }) => ({
      'gate.weight': undefined,
      'norm1.bias': 'attn_norm.bias',
      'norm2.bias': 'ffn_norm.bias',
      'final_norm.bias': 'output_norm.bias',
      ...(tensors.has('blk.0.ffn_up.bias') && { 'up.bias': 'ffn_up.bias', 'down.bias': 'ffn_down.bias' }),
    }),
  },
});
