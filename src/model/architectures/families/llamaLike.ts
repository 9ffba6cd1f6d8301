import { LIMITS } from '../Fields.js';
import type { GatedDefaults } from '../gatedDecoder.js';
import { biases, blockBiases, gatedFamily, type GatedFacts } from '../gatedFamily.js';
import { slidingLayers, windowedLayers } from '../slidingLayers.js';

/** Families that are LLaMA but for biases, and perhaps which elements rotate together. */

const SEED_OSS: GatedDefaults = {
  vocabulary: 155136,
  hidden: 4096,
  feedForward: 27648,
  layers: 64,
  heads: 80,
  kvHeads: 8,
  headDim: 128,
  context: 524288,
  epsilon: 1e-6,
  theta: 10000,
};

const attentionBiases: NonNullable<GatedFacts['names']> = (config) => ({
  ...biases(config.boolean('attention_bias', false), 'q', 'k', 'v', 'o'),
  ...blockBiases(config.boolean('mlp_bias', false), 'gate', 'up', 'down'),
});

/** Seed-OSS: biases of q, k and v, and a norm that GGUF calls by another name. */
export const seedOss = gatedFamily({
  family: 'seed_oss',
  defaults: SEED_OSS,
  names: (config) => ({
    ...biases(config.boolean('attention_bias', true), 'q', 'k', 'v'),
    ...biases(config.boolean('attention_out_bias', false), 'o'),
    ...blockBiases(config.boolean('mlp_bias', false), 'gate', 'up', 'down'),
  }),
  gguf: {
    architecture: 'seed_oss',
    rotary: 'halves',
    names: () => ({ 'norm2.weight': 'post_attention_norm.weight' }),
  },
});

/** Helium: neighbours rotate together. */
export const helium = gatedFamily({
  family: 'helium',
  defaults: {
    ...SEED_OSS,
    vocabulary: 48000,
    hidden: 2560,
    feedForward: 7040,
    layers: 24,
    heads: 20,
    kvHeads: 20,
    context: 4096,
    epsilon: 1e-8,
    theta: 100000,
  },
  style: { rotary: { style: 'pairs' } },
  names: attentionBiases,
});

/** CWM: layers that see a window, three of four. */
export const cwm = gatedFamily({
  family: 'cwm',
  defaults: {
    ...SEED_OSS,
    vocabulary: 128256,
    hidden: 6144,
    feedForward: 21504,
    heads: 48,
    context: 131072,
    epsilon: 1e-5,
    theta: 1e6,
  },
  decoder(decoder, config) {
    const window = config.integerOrNull('sliding_window', LIMITS.window, 8192);
    const sliding = slidingLayers(config, decoder.layers, (layer) => window !== null && layer % 4 !== 0);
    return { ...decoder, layerSpecs: windowedLayers(config, sliding, window) };
  },
  names: (config) => blockBiases(config.boolean('mlp_bias', false), 'gate', 'up', 'down'),
});

/** IQuest-Coder. */
export const iquestCoder = gatedFamily({
  family: 'iquestcoder',
  defaults: { ...SEED_OSS, vocabulary: 76800, hidden: 5120, layers: 80, heads: 40, context: 131072, epsilon: 1e-5 },
  names: attentionBiases,
});
