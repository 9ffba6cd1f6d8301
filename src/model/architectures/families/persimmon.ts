import type { DecoderSpec } from '../../DecoderSpec.js';
import { partialRotary } from '../configRotary.js';
import type { Family, WeightSource } from '../Family.js';
import { LIMITS, type Fields } from '../Fields.js';
import { LLAMA_BASES, LLAMA_LAYER } from '../gatedDecoder.js';
import { plainDecoder } from '../plainDecoder.js';
import { activation, dividedHeadDim, rotary } from '../specs.js';
import { fusedQueryKeyValue, head, weights } from '../weights.js';

/** Persimmon: GPT-NeoX's layers one branch after the other, squared ReLUs, and layer norms with biases over heads. */
export const persimmon: Family = {
  modelTypes: ['persimmon'],
  fromConfig(config) {
    const decoder = describe(config);
    return {
      decoder,
      bases: LLAMA_BASES,
      weights: [
        ...weights('{base}', {
          token_embedding: 'embed_tokens.weight',
          'final_norm.weight': 'final_layernorm.weight',
          'final_norm.bias': 'final_layernorm.bias',
        }),
        head('lm_head.weight', config.boolean('tie_word_embeddings', false)),
        ...fusedQueryKeyValue(`${LLAMA_LAYER}self_attn.query_key_value`, decoder, decoder.heads, ['weight', 'bias']),
        ...headNorms(decoder),
        ...weights(LLAMA_LAYER, {
          'norm1.weight': 'input_layernorm.weight',
          'norm1.bias': 'input_layernorm.bias',
          'norm2.weight': 'post_attention_layernorm.weight',
          'norm2.bias': 'post_attention_layernorm.bias',
          'o.weight': 'self_attn.dense.weight',
          'o.bias': 'self_attn.dense.bias',
          'up.weight': 'mlp.dense_h_to_4h.weight',
          'up.bias': 'mlp.dense_h_to_4h.bias',
          'down.weight': 'mlp.dense_4h_to_h.weight',
          'down.bias': 'mlp.dense_4h_to_h.bias',
        }),
      ],
    };
  },
};

function describe(config: Fields): DecoderSpec {
  const hiddenSize = config.integer('hidden_size', LIMITS.hidden, 4096);
  const heads = config.integer('num_attention_heads', LIMITS.heads, 64);
  const headDim = dividedHeadDim(config, hiddenSize, heads);
  const context = config.integer('max_position_embeddings', LIMITS.context, 16384);
  const { table, dims, contextTokens } = partialRotary(config, { headDim, contextTokens: context }, 10000, 0.5);
  const decoder = plainDecoder({
    family: 'persimmon',
    layers: config.integer('num_hidden_layers', LIMITS.layers, 36),
    hiddenSize,
    contextTokens,
    heads,
    kvHeads: heads,
    headDim,
    vocabularySize: config.integer('vocab_size', LIMITS.vocabulary, 262144),
    feedForwardSize: config.integer('intermediate_size', LIMITS.feedForward, 16384),
    epsilon: config.number('layer_norm_eps', LIMITS.epsilon, 1e-5),
    parallel: false,
    position: rotary('halves', dims, table),
    activation: activation(config, 'hidden_act', 'relu2'),
  });
  const normed = config.boolean('qk_layernorm', true);
  return normed ? { ...decoder, attention: { ...decoder.attention, qkNorm: 'layer' } } : decoder;
}

/** All heads have the same norm. */
function headNorms({ attention, heads }: DecoderSpec): WeightSource[] {
  if (attention.qkNorm === 'none') return [];
  return (['q', 'k'] as const).flatMap((role) =>
    weights(
      LLAMA_LAYER,
      {
        [`${role}_norm.weight`]: `self_attn.${role}_layernorm.weight`,
        [`${role}_norm.bias`]: `self_attn.${role}_layernorm.bias`,
      },
      { pieces: heads },
    ),
  );
}
