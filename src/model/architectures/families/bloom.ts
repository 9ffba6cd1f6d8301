import type { Description, Family, GgufModel } from '../Family.js';
import { LIMITS, type Fields } from '../Fields.js';
import { readGgufSizes } from '../gatedDecoder.js';
import { plainDecoder, type PlainSizes } from '../plainDecoder.js';
import { alibiSlopes, dividedHeadDim } from '../specs.js';
import { fusedQueryKeyValue, GGUF_LAYER, GGUF_PLAIN_LAYER, ggufGlobals, head, weights } from '../weights.js';
import type { DecoderSpec } from '../../DecoderSpec.js';

const LAYER = '{base}h.{layer}.';
/** Positions that its slopes were trained with. */
const CONTEXT = 2048;

function bloomDecoder(sizes: Omit<PlainSizes, 'family' | 'position' | 'parallel' | 'activation'>): DecoderSpec {
  const decoder = plainDecoder({
    ...sizes,
    family: 'bloom',
    parallel: false,
    activation: 'gelu-tanh',
    position: { kind: 'alibi', slopes: alibiSlopes(sizes.heads), roundToBfloat16: false },
  });
  return { ...decoder, embedding: { ...decoder.embedding, norm: true } };
}

/** BLOOM: ALiBi, a norm of embeddings, layer norms and biases. */
export const bloom: Family = {
  modelTypes: ['bloom'],
  fromConfig(config: Fields): Description {
    const hiddenSize = config.integer(config.has('n_embed') ? 'n_embed' : 'hidden_size', LIMITS.hidden, 64);
    const heads = config.integer(config.has('num_attention_heads') ? 'num_attention_heads' : 'n_head', LIMITS.heads, 8);
    if (config.boolean('apply_residual_connection_post_layernorm', false))
      config.refuse('apply_residual_connection_post_layernorm', 'false');
    const decoder = bloomDecoder({
      hiddenSize,
      heads,
      kvHeads: heads,
      headDim: dividedHeadDim(config, hiddenSize, heads, 'n_head'),
      layers: config.integer(config.has('num_hidden_layers') ? 'num_hidden_layers' : 'n_layer', LIMITS.layers, 2),
      vocabularySize: config.integer('vocab_size', LIMITS.vocabulary, 250880),
      contextTokens: config.integer('seq_length', LIMITS.context, CONTEXT),
      feedForwardSize: 4 * hiddenSize,
      epsilon: config.number('layer_norm_epsilon', LIMITS.epsilon, 1e-5),
    });
    return {
      decoder,
      bases: ['transformer.', ''],
      weights: [
        ...weights('{base}', {
          token_embedding: 'word_embeddings.weight',
          'embedding_norm.weight': 'word_embeddings_layernorm.weight',
          'embedding_norm.bias': 'word_embeddings_layernorm.bias',
          'final_norm.weight': 'ln_f.weight',
          'final_norm.bias': 'ln_f.bias',
        }),
        head('lm_head.weight', config.boolean('tie_word_embeddings', true)),
        ...fusedQueryKeyValue(`${LAYER}self_attention.query_key_value`, decoder, heads, ['weight', 'bias']),
        ...weights(LAYER, {
          'norm1.weight': 'input_layernorm.weight',
          'norm1.bias': 'input_layernorm.bias',
          'norm2.weight': 'post_attention_layernorm.weight',
          'norm2.bias': 'post_attention_layernorm.bias',
          'o.weight': 'self_attention.dense.weight',
          'o.bias': 'self_attention.dense.bias',
          'up.weight': 'mlp.dense_h_to_4h.weight',
          'up.bias': 'mlp.dense_h_to_4h.bias',
          'down.weight': 'mlp.dense_4h_to_h.weight',
          'down.bias': 'mlp.dense_4h_to_h.bias',
        }),
      ],
    };
  },
  gguf: {
    architecture: 'bloom',
    /** llama.cpp's converter regroups the fused rows: all q, all k, all v. */
    describe(model: GgufModel): Description {
      const sizes = readGgufSizes(model);
      const epsilon = model.fields.number('attention.layer_norm_epsilon', LIMITS.epsilon);
      const decoder = bloomDecoder({ ...sizes, kvHeads: sizes.heads, epsilon });
      return {
        decoder,
        weights: [
          ...ggufGlobals(),
          ...weights('', {
            'embedding_norm.weight': 'token_embd_norm.weight',
            'embedding_norm.bias': 'token_embd_norm.bias',
            'final_norm.bias': 'output_norm.bias',
          }),
          ...fusedQueryKeyValue(`${GGUF_LAYER}attn_qkv`, decoder, 1, ['weight', 'bias']),
          ...weights(GGUF_LAYER, GGUF_PLAIN_LAYER),
        ],
      };
    },
  },
};
