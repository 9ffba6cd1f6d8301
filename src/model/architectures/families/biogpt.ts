import type { Description, Family } from '../Family.js';
import { LIMITS, type Fields } from '../Fields.js';
import { plainDecoder } from '../plainDecoder.js';
import { activation, dividedHeadDim } from '../specs.js';
import { head, weights } from '../weights.js';
import { OPT_LAYER } from './opt.js';

/** BioGPT: OPT's layers with a GELU, and embeddings times the root of their size. llama.cpp has no BioGPT. */
export const biogpt: Family = {
  modelTypes: ['biogpt'],
  fromConfig(config: Fields): Description {
    const hiddenSize = config.integer('hidden_size', LIMITS.hidden, 1024);
    const heads = config.integer('num_attention_heads', LIMITS.heads, 16);
    const decoder = plainDecoder({
      family: 'biogpt',
      layers: config.integer('num_hidden_layers', LIMITS.layers, 24),
      hiddenSize,
      vocabularySize: config.integer('vocab_size', LIMITS.vocabulary, 42384),
      contextTokens: config.integer('max_position_embeddings', LIMITS.context, 1024),
      heads,
      kvHeads: heads,
      headDim: dividedHeadDim(config, hiddenSize, heads),
      feedForwardSize: config.integer('intermediate_size', LIMITS.feedForward, 4096),
      // The table's first two rows belong to no position.
      position: { kind: 'learned', offset: 2 },
      // torch's default: transformers does not read the configuration's.
      epsilon: 1e-5,
      parallel: false,
      activation: activation(config, 'hidden_act', 'gelu'),
    });
    const scale = config.boolean('scale_embedding', true) ? Math.sqrt(hiddenSize) : 1;
    return {
      decoder: { ...decoder, embedding: { ...decoder.embedding, scale } },
      bases: ['biogpt.', ''],
      weights: [
        ...weights('{base}', {
          token_embedding: 'embed_tokens.weight',
          position_embedding: 'embed_positions.weight',
          'final_norm.weight': 'layer_norm.weight',
          'final_norm.bias': 'layer_norm.bias',
        }),
        head('output_projection.weight', config.boolean('tie_word_embeddings', true)),
        ...weights('{base}layers.{layer}.', OPT_LAYER),
      ],
    };
  },
};
