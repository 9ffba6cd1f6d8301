import { gatedFamily, biases, blockBiases } from '../gatedFamily.js';
import { activation } from '../specs.js';

/** Jais 2: LLaMA with layer norms, biases, and a squared ReLU without gate. */
export const jais2 = gatedFamily({
  family: 'jais2',
  defaults: {
    vocabulary: 150272,
    hidden: 3328,
    feedForward: 26624,
    layers: 32,
    heads: 26,
    kvHeads: null,
    headDim: null,
    context: 8192,
    epsilon: 1e-5,
    theta: 10000,
  },
  style: { norm: { kind: 'layer', epsilon: 'layer_norm_eps' } },
  decoder: (decoder, config) => ({
    ...decoder,
    feedForward: { kind: 'plain', activation: activation(config, 'hidden_act', 'relu2') },
  }),
  names: (config) => ({
    ...biases(config.boolean('attention_bias', true), 'q', 'k', 'v', 'o'),
    ...blockBiases(config.boolean('mlp_bias', true), 'up', 'down'),
    'gate.weight': undefined,
    'norm1.bias': 'input_layernorm.bias',
    'norm2.bias': 'post_attention_layernorm.bias',
    'final_norm.bias': 'norm.bias',
  }),
  gguf: {
    architecture: 'jais2',
    rotary: 'halves',
    norm: 'layer',
    decoder: (decoder) => ({ ...decoder, feedForward: { kind: 'plain', activation: 'relu-squared' } }),
    names: () => ({
      'gate.weight': undefined,
      'norm1.bias': 'attn_norm.bias',
      'norm2.bias': 'ffn_norm.bias',
      'final_norm.bias': 'output_norm.bias',
      'up.bias': 'ffn_up.bias',
      'down.bias': 'ffn_down.bias',
    }),
  },
});
