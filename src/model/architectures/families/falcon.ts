import type { LayerRole } from '../weightRoles.js';
import { wholeHeadRotary } from '../configRotary.js';
import type { Description, Family, GgufModel } from '../Family.js';
import { type Fields, LIMITS } from '../Fields.js';
import { readGgufSizes } from '../gatedDecoder.js';
import { ggufRotary } from '../ggufRotary.js';
import { plainDecoder } from '../plainDecoder.js';
import { activation, alibiSlopes, dividedHeadDim, rotary } from '../specs.js';
import { fusedQueryKeyValue, GGUF_LAYER, ggufGlobals, head, type Names, weights } from '../weights.js';

const LAYER = '{base}h.{layer}.';

/**
 * Falcon in its three shapes: the old one (7B: one KV head, one norm for both branches), the new decoder (40B and on:
 * KV groups, a norm for each branch), and falcon-rw (ALiBi, a KV head for each query head, branches one after the
 * other).
 */
export const falcon: Family = {
  modelTypes: ['falcon'],
  fromConfig(config: Fields): Description {
    const hiddenSize =
      config.raw('n_embed') == null
        ? config.integer('hidden_size', LIMITS.hidden, 4544)
        : config.integer('n_embed', LIMITS.hidden);
    const heads = config.integer('num_attention_heads', LIMITS.heads, 71);
    const headDim = dividedHeadDim(config, hiddenSize, heads);
    const newDecoder = config.boolean('new_decoder_architecture', false);
    const multiQuery = config.boolean('multi_query', true);
    const statedKvHeads = config.integerOrNull('num_kv_heads', LIMITS.heads, null) ?? heads;
    const kvHeads = newDecoder ? statedKvHeads : multiQuery ? 1 : heads;
    if (heads % kvHeads !== 0) config.refuse('num_kv_heads', `a divisor of the ${heads} query heads`);
    const parallel = newDecoder || config.boolean('parallel_attn', true);
    const norms = newDecoder ? (config.integerOrNull('num_ln_in_parallel_attn', { min: 1, max: 2 }, null) ?? 2) : 1;
    const biased = config.boolean('bias', false);
    const context = config.integer('max_position_embeddings', LIMITS.context, 2048);
    const alibi = config.boolean('alibi', false);
    const encoding = alibi ? undefined : wholeHeadRotary(config, headDim, context);
    const decoder = plainDecoder({
      family: 'falcon',
      hiddenSize,
      heads,
      headDim,
      kvHeads,
      parallel,
      contextTokens: encoding?.contextTokens ?? context,
      layers: config.integer('num_hidden_layers', LIMITS.layers, 32),
      vocabularySize: config.integer('vocab_size', LIMITS.vocabulary, 65024),
      feedForwardSize: config.integerOrNull('ffn_hidden_size', LIMITS.feedForward, null) ?? 4 * hiddenSize,
      epsilon: config.number('layer_norm_epsilon', LIMITS.epsilon, 1e-5),
      position:
        encoding === undefined
          ? { kind: 'alibi', slopes: alibiSlopes(heads), roundToBfloat16: true }
          : rotary('halves', headDim, encoding.table),
      activation: activation(config, 'activation', 'gelu'),
    });
    return {
      decoder,
      bases: ['transformer.', ''],
      weights: [
        ...weights('{base}', {
          token_embedding: 'word_embeddings.weight',
          'final_norm.weight': 'ln_f.weight',
          'final_norm.bias': 'ln_f.bias',
        }),
        head('lm_head.weight', config.boolean('tie_word_embeddings', true)),
        ...weights(LAYER, normNames(parallel, norms)),
        ...fusedQueryKeyValue(
          `${LAYER}self_attention.query_key_value`,
          decoder,
          kvHeads,
          biased ? ['weight', 'bias'] : ['weight'],
        ),
        ...weights(LAYER, {
          'o.weight': 'self_attention.dense.weight',
          'up.weight': 'mlp.dense_h_to_4h.weight',
          'down.weight': 'mlp.dense_4h_to_h.weight',
          ...(biased && {
            'o.bias': 'self_attention.dense.bias',
            'up.bias': 'mlp.dense_h_to_4h.bias',
            'down.bias': 'mlp.dense_4h_to_h.bias',
          }),
        }),
      ],
    };
  },
  gguf: { architecture: 'falcon', describe: describeGguf },
};

function normNames(parallel: boolean, norms: number): Names<LayerRole> {
  const both = (role: 'norm1' | 'norm2', name: string): Names<LayerRole> => ({
    [`${role}.weight`]: `${name}.weight`,
    [`${role}.bias`]: `${name}.bias`,
  });
  if (!parallel) return { ...both('norm1', 'input_layernorm'), ...both('norm2', 'post_attention_layernorm') };
  return norms === 2 ? { ...both('norm1', 'ln_attn'), ...both('norm2', 'ln_mlp') } : both('norm1', 'input_layernorm');
}

/**
 * llama.cpp knows the parallel, rotary shapes only; its converter regroups the fused rows: all q, all k, all v. Where a
 * file has `attn_norm_2`, that is the norm before attention, and `attn_norm` the one before the feed-forward block.
 */
function describeGguf(model: GgufModel): Description {
  const { fields, tensors } = model;
  const sizes = readGgufSizes(model);
  const { table, contextTokens } = ggufRotary(model, sizes.headDim, sizes.contextTokens);
  const decoder = plainDecoder({
    family: 'falcon',
    ...sizes,
    contextTokens,
    parallel: true,
    epsilon: fields.number('attention.layer_norm_epsilon', LIMITS.epsilon),
    position: rotary('halves', sizes.headDim, table),
    activation: 'gelu',
  });
  const norms: Names<LayerRole> = tensors.has('blk.0.attn_norm_2.weight')
    ? {
        'norm1.weight': 'attn_norm_2.weight',
        'norm1.bias': 'attn_norm_2.bias',
        'norm2.weight': 'attn_norm.weight',
        'norm2.bias': 'attn_norm.bias',
      }
    : { 'norm1.weight': 'attn_norm.weight', 'norm1.bias': 'attn_norm.bias' };
  return {
    decoder,
    weights: [
      ...ggufGlobals(),
      ...weights('', { 'final_norm.bias': 'output_norm.bias' }),
      ...weights(GGUF_LAYER, norms),
      ...fusedQueryKeyValue(`${GGUF_LAYER}attn_qkv`, decoder, 1, ['weight']),
      ...fusedQueryKeyValue(`${GGUF_LAYER}attn_qkv`, decoder, 1, ['bias'], { optional: true }),
      ...weights(GGUF_LAYER, {
        'o.weight': 'attn_output.weight',
        'up.weight': 'ffn_up.weight',
        'down.weight': 'ffn_down.weight',
      }),
      ...weights(
        GGUF_LAYER,
        { 'o.bias': 'attn_output.bias', 'up.bias': 'ffn_up.bias', 'down.bias': 'ffn_down.bias' },
        { optional: true },
      ),
    ],
  };
}
