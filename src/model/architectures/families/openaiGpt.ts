import type { Description, Family } from '../Family.js';
import { LIMITS, type Fields } from '../Fields.js';
import { plainDecoder } from '../plainDecoder.js';
import { activation, dividedHeadDim } from '../specs.js';
import { fusedQueryKeyValue, head, weights } from '../weights.js';
import { GPT2_BLOCK, GPT2_NORMS, GPT2_OUTPUT, turnedMatrices } from './gpt2.js';

const LAYER = '{base}h.{layer}.';

/** GPT (1): GPT-2 with norms after the branches, and none at the end. llama.cpp has no GPT. */
export const openaiGpt: Family = {
  modelTypes: ['openai-gpt'],
  fromConfig(config: Fields): Description {
    const hiddenSize = config.integer('n_embd', LIMITS.hidden, 768);
    const heads = config.integer('n_head', LIMITS.heads, 12);
    // Its `gelu` is the approximation, its `swish` is silu.
    const named = (config.raw('afn') ?? 'gelu') === 'gelu' ? config.with({ afn: 'gelu_new' }) : config;
    const decoder = plainDecoder({
      family: 'openai-gpt',
      layers: config.integer('n_layer', LIMITS.layers, 12),
      hiddenSize,
      vocabularySize: config.integer('vocab_size', LIMITS.vocabulary, 40478),
      contextTokens: config.integer('n_positions', LIMITS.context, 512),
      heads,
      kvHeads: heads,
      headDim: dividedHeadDim(config, hiddenSize, heads, 'n_head'),
      feedForwardSize: 4 * hiddenSize,
      position: { kind: 'learned', offset: 0 },
      epsilon: config.number('layer_norm_epsilon', LIMITS.epsilon, 1e-5),
      parallel: false,
      activation: activation(named, 'afn', 'gelu_new'),
    });
    return {
      decoder: { ...decoder, residual: 'post', finalNorm: false },
      bases: ['transformer.', ''],
      weights: [
        ...weights('{base}', { token_embedding: 'tokens_embed.weight', position_embedding: 'positions_embed.weight' }),
        head('lm_head.weight', config.boolean('tie_word_embeddings', true)),
        ...weights(LAYER, GPT2_NORMS),
        ...[
          ...fusedQueryKeyValue(`${LAYER}attn.c_attn`, decoder, 1, ['weight', 'bias']),
          ...weights(LAYER, { ...GPT2_OUTPUT, ...GPT2_BLOCK }),
        ].map(turnedMatrices),
      ],
    };
  },
};
