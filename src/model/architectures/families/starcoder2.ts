import { LIMITS } from '../Fields.js';
import type { GatedDefaults } from '../gatedDecoder.js';
import { biases, gatedFamily, type Renamed } from '../gatedFamily.js';
import { activation, sameLayers } from '../specs.js';

const DEFAULTS: GatedDefaults = {
  vocabulary: 49152,
  hidden: 3072,
  feedForward: 12288,
  layers: 30,
  heads: 24,
  kvHeads: 2,
  headDim: null,
  context: 4096,
  epsilon: 1e-5,
  theta: 10000,
};
/** StarCoder 2: layer norms, biases, a feed-forward block without gate, a window in each layer. */
export const starcoder2 = gatedFamily({
  family: 'starcoder2',
  defaults: DEFAULTS,
  style: { norm: { kind: 'layer', epsilon: 'norm_epsilon' } },
  tied: true,
  decoder: (decoder, config) => ({
    ...decoder,
    feedForward: { kind: 'plain', activation: activation(config, 'hidden_act', 'gelu_pytorch_tanh') },
    layerSpecs: sameLayers(decoder.layers, config.integerOrNull('sliding_window', LIMITS.window, null) ?? 0),
  }),
  names(config): Renamed {
    const biased = config.boolean('use_bias', true);
    return {
      ...biases(biased, 'q', 'k', 'v', 'o'),
      'norm1.bias': 'input_layernorm.bias',
      'norm2.bias': 'post_attention_layernorm.bias',
      'final_norm.bias': 'norm.bias',
      'gate.weight': undefined,
      'up.weight': 'mlp.c_fc.weight',
      'down.weight': 'mlp.c_proj.weight',
      ...(biased && { 'up.bias': 'mlp.c_fc.bias', 'down.bias': 'mlp.c_proj.bias' }),
    };
  },
  gguf: {
    architecture: 'starcoder2',
    rotary: 'halves',
    norm: 'layer',
    decoder: (decoder, { fields }) => ({
      ...decoder,
      feedForward: { kind: 'plain', activation: 'gelu-tanh' },
      // Metadata of llama.cpp's converter have no window, which is as long as the models' training.
      layerSpecs: sameLayers(
        decoder.layers,
        fields.integer('attention.sliding_window', { min: 0, max: LIMITS.window.max }, 0),
      ),
    }),
    names: ({ tensors }) => ({
      'norm1.bias': 'attn_norm.bias',
      'norm2.bias': 'ffn_norm.bias',
      'final_norm.bias': 'output_norm.bias',
      'gate.weight': undefined,
      ...(tensors.has('blk.0.ffn_up.bias') && { 'up.bias': 'ffn_up.bias', 'down.bias': 'ffn_down.bias' }),
    }),
  },
});
