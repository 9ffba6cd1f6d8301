import { LIMITS } from '../Fields.js';
import { latentConfig, latentGguf, latentGgufWeights, type LatentDefaults } from '../latentDecoder.js';
import type { Family } from '../Family.js';
import { GGUF_GATED, GGUF_LAYER, weights } from '../weights.js';
import { deepFamily } from './deepseek.js';

const DEFAULTS: LatentDefaults = {
  vocabulary: 73448,
  hidden: 2560,
  feedForward: 6400,
  layers: 62,
  heads: 40,
  context: 32768,
  epsilon: 1e-5,
  theta: 10000,
  rank: 256,
  queryRank: 768,
  rotated: 32,
  plain: 64,
  value: 64,
};
const SCALES = { embedding: 12, depth: 1.4, base: 256 } as const;
const FACTOR = { min: 1e-6, max: 1e6 };

/** MiniCPM3: latent attention; embeddings, branches and logits are scaled. */
export const minicpm3: Family = {
  ...deepFamily(['minicpm3'], (config) => {
    const decoder = latentConfig('minicpm3', config, DEFAULTS, 'halves');
    const { hiddenSize, layers } = decoder;
    return {
      ...decoder,
      embedding: { ...decoder.embedding, scale: config.number('scale_emb', FACTOR, SCALES.embedding) },
      residualScale: config.number('scale_depth', FACTOR, SCALES.depth) / Math.sqrt(layers),
      logitScale: config.integer('dim_model_base', LIMITS.hidden, SCALES.base) / hiddenSize,
    };
  }),
  gguf: {
    architecture: 'minicpm3',
    describe(model) {
      const decoder = latentGguf('minicpm3', model, 'halves');
      const { hiddenSize, layers } = decoder;
      return {
        decoder: {
          ...decoder,
          embedding: { ...decoder.embedding, scale: SCALES.embedding },
          residualScale: SCALES.depth / Math.sqrt(layers),
          logitScale: SCALES.base / hiddenSize,
        },
        weights: [...latentGgufWeights(decoder, model), ...weights(GGUF_LAYER, GGUF_GATED)],
      };
    },
  },
};
