import type { Description, Family, GgufModel } from '../Family.js';
import type { Fields } from '../Fields.js';
import {
  gatedAttentionWeights,
  gatedConfig,
  gatedFeedForwardWeights,
  gatedGguf,
  LLAMA_BASES,
  type GatedDefaults,
} from '../gatedDecoder.js';
import { qwenLayers } from '../slidingLayers.js';
import { GGUF_GATED, GGUF_LAYER, ggufAttention, ggufGlobals, weights } from '../weights.js';

const DEFAULTS: GatedDefaults = {
  vocabulary: 151936,
  hidden: 4096,
  feedForward: 22016,
  layers: 32,
  heads: 32,
  kvHeads: 32,
  headDim: null,
  context: 32768,
  epsilon: 1e-6,
  theta: 10000,
};

/** Qwen 2 and 2.5: biases on q, k and v; some layers may slide. */
export const qwen2: Family = {
  modelTypes: ['qwen2'],
  fromConfig(config: Fields): Description {
    const decoder = gatedConfig('qwen2', config, DEFAULTS);
    return {
      decoder: { ...decoder, layerSpecs: qwenLayers(config, decoder.layers) },
      bases: LLAMA_BASES,
      weights: [
        ...gatedAttentionWeights(config.boolean('tie_word_embeddings', false), ['q', 'k', 'v']),
        ...gatedFeedForwardWeights(),
      ],
    };
  },
  gguf: {
    architecture: 'qwen2',
    describe: (model: GgufModel): Description => ({
      decoder: gatedGguf('qwen2', model, 'halves'),
      weights: [
        ...ggufGlobals(),
        ...ggufAttention(),
        ...weights(GGUF_LAYER, {
          'norm1.weight': 'attn_norm.weight',
          'norm2.weight': 'ffn_norm.weight',
          ...GGUF_GATED,
        }),
      ],
    }),
  },
};
