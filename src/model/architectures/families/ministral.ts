import { LIMITS } from '../Fields.js';
import { gatedFamily } from '../gatedFamily.js';
import { slidingLayers, windowedLayers } from '../slidingLayers.js';
import { MISTRAL_DEFAULTS } from './mistral.js';

/** Ministral: Mistral in which some layers see a window and others see all tokens. */
export const ministral = gatedFamily({
  family: 'ministral',
  defaults: MISTRAL_DEFAULTS,
  decoder(decoder, config) {
    const window = config.integerOrNull('sliding_window', LIMITS.window, 4096);
    const sliding = slidingLayers(config, decoder.layers, () => window !== null);
    return { ...decoder, layerSpecs: windowedLayers(config, sliding, window) };
  },
});
