import { configuredRotary, rotaryFields, rotaryTheta } from '../configRotary.js';
import type { Description, Family, GgufModel, WeightSource } from '../Family.js';
import { LIMITS, type Fields } from '../Fields.js';
import { readGgufSizes } from '../gatedDecoder.js';
import { ggufRotary } from '../ggufRotary.js';
import { plainDecoder } from '../plainDecoder.js';
import { activation, dividedHeadDim, rotary } from '../specs.js';
import { fusedQueryKeyValue, GGUF_LAYER, ggufGlobals, head, weights } from '../weights.js';

const LAYER = '{base}layers.{layer}.';

/**
 * GPT-NeoX and Pythia: layer norms, both branches read the same state (or one after the other), a part of each head
 * rotates.
 */
export const gptNeox: Family = {
  modelTypes: ['gpt_neox'],
  fromConfig(config: Fields): Description {
    const hiddenSize = config.integer('hidden_size', LIMITS.hidden, 6144);
    const heads = config.integer('num_attention_heads', LIMITS.heads, 64);
    const headDim = dividedHeadDim(config, hiddenSize, heads);
    const layers = config.integer('num_hidden_layers', LIMITS.layers, 44);
    const context = config.integer('max_position_embeddings', LIMITS.context, 2048);
    const settings = rotaryFields(config);
    const share = { min: 0, max: 1 };
    const rotated = settings.has('partial_rotary_factor')
      ? settings.number('partial_rotary_factor', share)
      : config.number('rotary_pct', share, 0.25);
    const dims = Math.floor(headDim * rotated);
    const { table, contextTokens } = configuredRotary(settings, {
      dims: evenDims(config, dims),
      theta: rotaryTheta(settings, config, 'rotary_emb_base', 10000),
      contextTokens: context,
    });
    const decoder = plainDecoder({
      family: 'gpt_neox',
      layers,
      hiddenSize,
      contextTokens,
      heads,
      kvHeads: heads,
      headDim,
      vocabularySize: config.integer('vocab_size', LIMITS.vocabulary, 50432),
      feedForwardSize: config.integer('intermediate_size', LIMITS.feedForward, 24576),
      epsilon: config.number('layer_norm_eps', LIMITS.epsilon, 1e-5),
      parallel: config.boolean('use_parallel_residual', true),
      position: rotary('halves', dims, table),
      activation: activation(config, 'hidden_act', 'gelu'),
    });
    const biased = config.boolean('attention_bias', true);
    return {
      decoder,
      bases: ['gpt_neox.', ''],
      weights: [
        ...weights('{base}', {
          token_embedding: 'embed_in.weight',
          'final_norm.weight': 'final_layer_norm.weight',
          'final_norm.bias': 'final_layer_norm.bias',
        }),
        head('embed_out.weight', config.boolean('tie_word_embeddings', false)),
        ...fusedQueryKeyValue(
          `${LAYER}attention.query_key_value`,
          decoder,
          heads,
          biased ? ['weight', 'bias'] : ['weight'],
        ),
        ...weights(LAYER, {
          'norm1.weight': 'input_layernorm.weight',
          'norm1.bias': 'input_layernorm.bias',
          'norm2.weight': 'post_attention_layernorm.weight',
          'norm2.bias': 'post_attention_layernorm.bias',
          'o.weight': 'attention.dense.weight',
          ...(biased && { 'o.bias': 'attention.dense.bias' }),
          'up.weight': 'mlp.dense_h_to_4h.weight',
          'up.bias': 'mlp.dense_h_to_4h.bias',
          'down.weight': 'mlp.dense_4h_to_h.weight',
          'down.bias': 'mlp.dense_4h_to_h.bias',
        }),
      ],
    };
  },
  gguf: { architecture: 'gptneox', describe: describeGguf },
};

/**
 * llama.cpp's converter regroups the fused rows: all q, all k, all v. Its graph has the tanh GELU; the model was
 * trained with erf.
 */
function describeGguf(model: GgufModel): Description {
  const { fields } = model;
  const sizes = readGgufSizes(model);
  const dims = evenDims(
    fields,
    fields.integer('rope.dimension_count', LIMITS.headDim, sizes.headDim),
    'rope.dimension_count',
  );
  const { table, contextTokens } = ggufRotary(model, dims, sizes.contextTokens);
  const decoder = plainDecoder({
    family: 'gpt_neox',
    ...sizes,
    contextTokens,
    epsilon: fields.number('attention.layer_norm_epsilon', LIMITS.epsilon, 1e-5),
    parallel: fields.boolean('use_parallel_residual', true),
    position: rotary('halves', dims, table),
    activation: 'gelu',
  });
  const biases: WeightSource[] = [
    ...fusedQueryKeyValue(`${GGUF_LAYER}attn_qkv`, decoder, 1, ['bias'], { optional: true }),
    ...weights(GGUF_LAYER, { 'o.bias': 'attn_output.bias' }, { optional: true }),
  ];
  return {
    decoder,
    weights: [
      ...ggufGlobals(),
      ...weights('', { 'final_norm.bias': 'output_norm.bias' }),
      ...fusedQueryKeyValue(`${GGUF_LAYER}attn_qkv`, decoder, 1, ['weight']),
      ...biases,
      ...weights(GGUF_LAYER, {
        'norm1.weight': 'attn_norm.weight',
        'norm1.bias': 'attn_norm.bias',
        'norm2.weight': 'ffn_norm.weight',
        'norm2.bias': 'ffn_norm.bias',
        'o.weight': 'attn_output.weight',
        'up.weight': 'ffn_up.weight',
        'up.bias': 'ffn_up.bias',
        'down.weight': 'ffn_down.weight',
        'down.bias': 'ffn_down.bias',
      }),
    ],
  };
}

function evenDims(fields: Fields, dims: number, key = 'rotary_pct'): number {
  return dims >= 2 && dims % 2 === 0
    ? dims
    : fields.refuse(key, 'a share that rotates an even number of elements, at least 2', dims);
}
