import { LIMITS } from '../Fields.js';
import type { GatedDefaults } from '../gatedDecoder.js';
import { gatedFamily } from '../gatedFamily.js';
import { ggufScaledQueries, withScaledQueries } from '../queryScale.js';
import { sameLayers } from '../specs.js';

const DEFAULTS: GatedDefaults = {
  vocabulary: 131072,
  hidden: 4096,
  feedForward: 14336,
  layers: 34,
  heads: 32,
  kvHeads: 8,
  headDim: 128,
  context: 262144,
  epsilon: 1e-5,
  theta: 1e6,
};
/** Where a configuration says nothing of it (transformers' Ministral3Config). */
const ROTARY = {
  rope_type: 'yarn',
  rope_theta: 1e6,
  factor: 16,
  original_max_position_embeddings: 16384,
  beta_fast: 32,
  beta_slow: 1,
  mscale_all_dim: 1,
  mscale: 1,
  llama_4_scaling_beta: 0.1,
};

/** Ministral 3, the language model: Mistral with queries scaled by their position. */
export const ministral3 = gatedFamily({
  family: 'ministral3',
  defaults: DEFAULTS,
  prepare: (config) =>
    ['rope_parameters', 'rope_scaling'].some((key) => config.child(key) !== undefined)
      ? config
      : config.with({ rope_parameters: ROTARY }),
  decoder(decoder, config) {
    const window = config.integerOrNull('sliding_window', LIMITS.window, null) ?? 0;
    return withScaledQueries({ ...decoder, layerSpecs: sameLayers(decoder.layers, window) }, config);
  },
  gguf: {
    architecture: 'mistral3',
    rotary: 'pairs',
    decoder: ggufScaledQueries,
  },
});
