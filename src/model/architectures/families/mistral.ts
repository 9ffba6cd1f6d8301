import type { Description, Family } from '../Family.js';
import { LIMITS, type Fields } from '../Fields.js';
import {
  gatedAttentionWeights,
  gatedConfig,
  gatedFeedForwardWeights,
  LLAMA_BASES,
  type GatedDefaults,
} from '../gatedDecoder.js';
import { sameLayers } from '../specs.js';

export const MISTRAL_DEFAULTS: GatedDefaults = {
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

/** Mistral: LLaMA with a sliding window in every layer, unless `sliding_window` is null. In GGUF it is a `llama`. */
export const mistral: Family = {
  modelTypes: ['mistral'],
  fromConfig(config: Fields): Description {
    const decoder = gatedConfig('mistral', config, MISTRAL_DEFAULTS);
    const window = config.integerOrNull('sliding_window', LIMITS.window, 4096) ?? 0;
    return {
      decoder: { ...decoder, layerSpecs: sameLayers(decoder.layers, window) },
      bases: LLAMA_BASES,
      weights: [...gatedAttentionWeights(config.boolean('tie_word_embeddings', false)), ...gatedFeedForwardWeights()],
    };
  },
};
