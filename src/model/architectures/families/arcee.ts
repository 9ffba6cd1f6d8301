import type { GatedDefaults } from '../gatedDecoder.js';
import { biases, blockBiases, gatedFamily } from '../gatedFamily.js';
import { activation } from '../specs.js';

const DEFAULTS: GatedDefaults = {
  vocabulary: 32000,
  hidden: 2560,
  feedForward: 18432,
  layers: 32,
  heads: 32,
  kvHeads: null,
  headDim: null,
  context: 4096,
  epsilon: 1e-5,
  theta: 10000,
};
/** Arcee's AFM: LLaMA with a squared ReLU in place of the gated block. */
export const arcee = gatedFamily({
  family: 'arcee',
  defaults: DEFAULTS,
  decoder: (decoder, config) => ({
    ...decoder,
    feedForward: { kind: 'plain', activation: activation(config, 'hidden_act', 'relu2') },
  }),
  names: (config) => ({
    ...biases(config.boolean('attention_bias', false), 'q', 'k', 'v', 'o'),
    ...blockBiases(config.boolean('mlp_bias', false), 'up', 'down'),
    'gate.weight': undefined,
  }),
  gguf: {
    architecture: 'arcee',
    rotary: 'pairs',
    decoder: (decoder) => ({ ...decoder, feedForward: { kind: 'plain', activation: 'relu-squared' } }),
    names: () => ({ 'gate.weight': undefined }),
  },
});
