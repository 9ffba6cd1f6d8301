import { withHead } from '../encoder.js';
import type { Description, Family, GgufModel } from '../Family.js';
import type { Fields } from '../Fields.js';
import {
  gatedAttentionWeights,
  gatedConfig,
  gatedFeedForwardWeights,
  gatedGguf,
  LLAMA_BASES,
  LLAMA_LAYER,
  type GatedDefaults,
} from '../gatedDecoder.js';
import { ggufClassifier } from '../ggufHead.js';
import { qwenLayers } from '../slidingLayers.js';
import { withQueryKeyNorm } from '../specs.js';
import { GGUF_GATED, GGUF_LAYER, ggufAttention, ggufGlobals, weights } from '../weights.js';

const DEFAULTS: GatedDefaults = {
  vocabulary: 151936,
  hidden: 4096,
  feedForward: 22016,
  layers: 32,
  heads: 32,
  kvHeads: 32,
  headDim: 128,
  context: 32768,
  epsilon: 1e-6,
  theta: 10000,
};

/** Qwen 3: a norm over each head of q and k, and heads whose sizes need not add up to the hidden size. */
export const qwen3: Family = {
  modelTypes: ['qwen3'],
  fromConfig(config: Fields): Description {
    const decoder = gatedConfig('qwen3', config, DEFAULTS);
    const biases = config.boolean('attention_bias', false) ? (['q', 'k', 'v', 'o'] as const) : [];
    return {
      decoder: { ...withQueryKeyNorm(decoder), layerSpecs: qwenLayers(config, decoder.layers) },
      bases: LLAMA_BASES,
      weights: [
        ...gatedAttentionWeights(config.boolean('tie_word_embeddings', false), biases),
        ...weights(LLAMA_LAYER, {
          'q_norm.weight': 'self_attn.q_norm.weight',
          'k_norm.weight': 'self_attn.k_norm.weight',
        }),
        ...gatedFeedForwardWeights(),
      ],
    };
  },
  gguf: {
    architecture: 'qwen3',
    describe(model: GgufModel): Description {
      const decoder = withQueryKeyNorm(gatedGguf('qwen3', model, 'halves'));
      const description: Description = {
        decoder,
        weights: [
          ...ggufGlobals(),
          ...ggufAttention(),
          ...weights(GGUF_LAYER, {
            'norm1.weight': 'attn_norm.weight',
            'norm2.weight': 'ffn_norm.weight',
            'q_norm.weight': 'attn_q_norm.weight',
            'k_norm.weight': 'attn_k_norm.weight',
            ...GGUF_GATED,
          }),
        ],
      };
      // Of Qwen3-Reranker in GGUF all that is left of the head may be its rows for yes and no.
      return withHead(description, ggufClassifier(model, decoder.hiddenSize, { pooling: 'last' }));
    },
  },
};
