import { LIMITS } from '../Fields.js';
import { normsLessOne, PRE_NORMS, type GatedDefaults } from '../gatedDecoder.js';
import { biases, gatedFamily } from '../gatedFamily.js';
import { checkCausal } from '../sandwichDecoder.js';
import { activation } from '../specs.js';
import type { DecoderSpec } from '../../DecoderSpec.js';

const DEFAULTS: GatedDefaults = {
  vocabulary: 256000,
  hidden: 3072,
  feedForward: 24576,
  layers: 28,
  heads: 16,
  kvHeads: null,
  headDim: 256,
  context: 8192,
  epsilon: 1e-6,
  theta: 10000,
};
const scaled = (decoder: DecoderSpec): DecoderSpec => ({
  ...decoder,
  embedding: { size: decoder.hiddenSize, scale: Math.fround(Math.sqrt(decoder.hiddenSize)) },
});

/** Gemma (1): norms stored less 1, embeddings times the root of their size. */
export const gemma = gatedFamily({
  family: 'gemma',
  defaults: DEFAULTS,
  tied: true,
  decoder(decoder, config) {
    checkCausal(config);
    // Its first releases say gelu and mean the approximation.
    const approximated =
      config.raw('hidden_act') === 'gelu' ? config.with({ hidden_act: 'gelu_pytorch_tanh' }) : config;
    return {
      ...scaled(decoder),
      feedForward: { kind: 'gated', activation: activation(approximated, 'hidden_act', 'gelu_pytorch_tanh') },
    };
  },
  names: (config) => ({
    ...biases(config.boolean('attention_bias', false), 'q', 'k', 'v', 'o'),
    'final_norm.weight': undefined,
    'norm1.weight': undefined,
    'norm2.weight': undefined,
  }),
  weights: () => [...normsLessOne(PRE_NORMS)],
  gguf: {
    architecture: 'gemma',
    rotary: 'halves',
    decoder: (decoder, { fields }) => ({
      ...scaled(decoder),
      attention: {
        ...decoder.attention,
        scale: fields.number('attention.scale', LIMITS.factor, decoder.headDim ** -0.5),
      },
      feedForward: { kind: 'gated', activation: 'gelu-tanh' },
    }),
  },
});
