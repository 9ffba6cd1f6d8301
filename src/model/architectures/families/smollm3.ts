import type { GatedDefaults } from '../gatedDecoder.js';
import { LIMITS, type Fields } from '../Fields.js';
import { biases, blockBiases, gatedFamily } from '../gatedFamily.js';
import { slidingLayers, unrotated, windowedLayers } from '../slidingLayers.js';

const DEFAULTS: GatedDefaults = {
  vocabulary: 128256,
  hidden: 2048,
  feedForward: 11008,
  layers: 36,
  heads: 16,
  kvHeads: 4,
  headDim: null,
  context: 32768,
  epsilon: 1e-6,
  theta: 2e6,
};
/** Every fourth layer does not rotate, where nothing else is said; llama.cpp knows no other. */
const INTERVAL = 4;

/** SmolLM3: LLaMA in which some layers do not rotate queries and keys. */
export const smollm3 = gatedFamily({
  family: 'smollm3',
  defaults: DEFAULTS,
  tied: true,
  decoder: (decoder, config) => {
    const { layers } = decoder;
    const rotates = rotatingLayers(config, layers);
    const window = config.integerOrNull('sliding_window', LIMITS.window, null);
    const windowed = config.boolean('use_sliding_window', false) ? window : null;
    const sliding = slidingLayers(config, layers, (layer) => windowed !== null && !rotates(layer));
    // Layers of that type slide only where the configuration uses windows at all.
    const slides = sliding.map((each) => each && config.boolean('use_sliding_window', false));
    return { ...decoder, layerSpecs: unrotated(windowedLayers(config, slides, windowed), rotates) };
  },
  names: (config) => ({
    ...biases(config.boolean('attention_bias', false), 'q', 'k', 'v', 'o'),
    ...blockBiases(config.boolean('mlp_bias', false), 'gate', 'up', 'down'),
  }),
  gguf: {
    architecture: 'smollm3',
    rotary: 'pairs',
    decoder: (decoder) => ({
      ...decoder,
      layerSpecs: unrotated(decoder.layerSpecs, (layer) => (layer + 1) % INTERVAL !== 0),
    }),
  },
});

/** `no_rope_layers` says of each layer whether it rotates: 1, in spite of its name. */
function rotatingLayers(config: Fields, layers: number): (layer: number) => boolean {
  const given = config.raw('no_rope_layers') ?? null;
  if (given === null) {
    const interval = config.integer('no_rope_layer_interval', LIMITS.layers, INTERVAL);
    return (layer) => (layer + 1) % interval !== 0;
  }
  const flags = config.numbers('no_rope_layers', layers, { min: 0, max: 1 });
  return (layer) => flags[layer] !== 0;
}
