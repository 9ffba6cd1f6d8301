import type { Description, Family, GgufModel } from '../Family.js';
import { LIMITS, type Fields } from '../Fields.js';
import { gatedConfig, gatedGguf, LLAMA_BASES, type GatedDefaults } from '../gatedDecoder.js';
import {
  checkCausal,
  ggufQueryScale,
  queryScale,
  sandwich,
  sandwichGgufWeights,
  sandwichWeights,
  softCaps,
} from '../sandwichDecoder.js';
import { ggufSlidingLayers, slidingLayers, windowedLayers } from '../slidingLayers.js';
import { activation } from '../specs.js';

const DEFAULTS: GatedDefaults = {
  vocabulary: 256000,
  hidden: 2304,
  feedForward: 9216,
  layers: 26,
  heads: 8,
  kvHeads: 4,
  headDim: 256,
  context: 8192,
  epsilon: 1e-6,
  theta: 10000,
};
const SOFT_CAPS = { attention: 50, logits: 30 };
const WINDOW = 4096;
/** Every second layer sees all tokens, the others a window. */
const PATTERN = 2;
/** The layers of the 27B model, whose scores are divided by the root of hidden size / heads. */
const LARGEST_LAYERS = 46;

/** Gemma 2: norms round both branches, every second layer slides, soft caps on scores and logits. */
export const gemma2: Family = {
  modelTypes: ['gemma2'],
  fromConfig(config: Fields): Description {
    const decoder = gatedConfig('gemma2', config, DEFAULTS);
    checkCausal(config);
    const sliding = slidingLayers(config, decoder.layers, (layer) => (layer + 1) % PATTERN !== 0);
    return {
      decoder: {
        ...sandwich(decoder, queryScale(config), softCaps(config, SOFT_CAPS)),
        feedForward: { kind: 'gated', activation: activation(config, 'hidden_activation', 'gelu_pytorch_tanh') },
        layerSpecs: windowedLayers(config, sliding, config.integerOrNull('sliding_window', LIMITS.window, WINDOW)),
      },
      bases: LLAMA_BASES,
      weights: sandwichWeights(config.boolean('tie_word_embeddings', true), config.boolean('attention_bias', false)),
    };
  },
  gguf: {
    architecture: 'gemma2',
    describe: (model: GgufModel): Description => {
      const { fields } = model;
      const decoder = gatedGguf('gemma2', model, 'halves');
      const window = fields.integer('attention.sliding_window', { min: 0, max: LIMITS.window.max }, WINDOW);
      return {
        decoder: {
          ...sandwich(decoder, ggufQueryScale(fields, decoder, LARGEST_LAYERS), softCaps(fields, SOFT_CAPS)),
          feedForward: { kind: 'gated', activation: 'gelu-tanh' },
          layerSpecs: windowedLayers(fields, ggufSlidingLayers(fields, decoder.layers, window, PATTERN), window),
        },
        weights: sandwichGgufWeights(),
      };
    },
  },
};

/** VaultGemma: Gemma 2 without norms after its branches. */
export const vaultGemma: Family = {
  modelTypes: ['vaultgemma'],
  fromConfig(config: Fields): Description {
    const { decoder, weights, ...rest } = gemma2.fromConfig(config);
    return {
      ...rest,
      decoder: { ...decoder, family: 'vaultgemma', residual: 'pre' },
      weights: weights.filter(({ role }) => !role.startsWith('post_')),
    };
  },
};
