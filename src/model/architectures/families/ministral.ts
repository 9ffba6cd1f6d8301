import { LIMITS } from '../Fields.js';
import type { GatedDefaults } from '../gatedDecoder.js';
import { gatedFamily } from '../gatedFamily.js';
import { slidingLayers, windowedLayers } from '../slidingLayers.js';

const DEFAULTS: GatedDefaults = {
  vocabulary: 32000,
  hidden: 4096,
  feedForward: 14336,
  layers: 32,
  heads: 32,
  kvHeads: 8,
  headDim: null,
  context: 131072,
  epsilon: 1e-6,
  theta: 10000,
};
/** Ministral: Mistral in which some layers see a window and others see all tokens. */
export const ministral = gatedFamily({
  family: 'ministral',
  defaults: DEFAULTS,
  decoder(decoder, config) {
    const window = config.integerOrNull('sliding_window', LIMITS.window, 4096);
    const sliding = slidingLayers(config, decoder.layers, () => window !== null);
    return { ...decoder, layerSpecs: windowedLayers(config, sliding, window) };
  },
});
