import type { Description, Family } from '../Family.js';
import { LIMITS, type Fields } from '../Fields.js';
import { activation, dividedHeadDim, sameLayers } from '../specs.js';
import { head, weights } from '../weights.js';

const LAYER = '{base}layers.{layer}.';
/** torch's LayerNorm default; OPT's configuration has no key for it. */
const EPSILON = 1e-5;
/** The table's first two rows belong to no position. */
const POSITION_OFFSET = 2;
const MATRICES = {
  'norm1.weight': 'self_attn_layer_norm.weight',
  'norm1.bias': 'self_attn_layer_norm.bias',
  'norm2.weight': 'final_layer_norm.weight',
  'norm2.bias': 'final_layer_norm.bias',
  'q.weight': 'self_attn.q_proj.weight',
  'k.weight': 'self_attn.k_proj.weight',
  'v.weight': 'self_attn.v_proj.weight',
  'o.weight': 'self_attn.out_proj.weight',
  'up.weight': 'fc1.weight',
  'down.weight': 'fc2.weight',
} as const;
/** Names of a layer with biases. */
export const OPT_LAYER = {
  ...MATRICES,
  'q.bias': 'self_attn.q_proj.bias',
  'k.bias': 'self_attn.k_proj.bias',
  'v.bias': 'self_attn.v_proj.bias',
  'o.bias': 'self_attn.out_proj.bias',
  'up.bias': 'fc1.bias',
  'down.bias': 'fc2.bias',
} as const;

/**
 * OPT: learned positions, ReLU, biases everywhere. The 350M model norms after each branch and projects its embeddings.
 * llama.cpp has no OPT.
 */
export const opt: Family = {
  modelTypes: ['opt'],
  fromConfig(config: Fields): Description {
    const hiddenSize = config.integer('hidden_size', LIMITS.hidden, 768);
    const heads = config.integer('num_attention_heads', LIMITS.heads, 12);
    const headDim = dividedHeadDim(config, hiddenSize, heads);
    const layers = config.integer('num_hidden_layers', LIMITS.layers, 12);
    const embeddingSize = config.integerOrNull('word_embed_proj_dim', LIMITS.hidden, null) ?? hiddenSize;
    const before = config.boolean('do_layer_norm_before', true);
    const finalNorm = before && !config.boolean('_remove_final_layer_norm', false);
    if (!config.boolean('layer_norm_elementwise_affine', true))
      config.refuse('layer_norm_elementwise_affine', 'true: norms without weights are not supported');
    const biased = config.boolean('enable_bias', true);
    return {
      decoder: {
        family: 'opt',
        layers,
        hiddenSize,
        heads,
        kvHeads: heads,
        headDim,
        finalNorm,
        vocabularySize: config.integer('vocab_size', LIMITS.vocabulary, 50272),
        contextTokens: config.integer('max_position_embeddings', LIMITS.context, 2048),
        feedForwardSize: config.integer('ffn_dim', LIMITS.feedForward, 3072),
        norm: { kind: 'layer', epsilon: EPSILON },
        residual: before ? 'pre' : 'post',
        embedding: { size: embeddingSize, scale: 1 },
        attention: { scale: headDim ** -0.5, qkNorm: 'none' },
        position: { kind: 'learned', offset: POSITION_OFFSET },
        feedForward: { kind: 'plain', activation: activation(config, 'activation_function', 'relu') },
        layerSpecs: sameLayers(layers),
      },
      bases: ['model.decoder.', 'decoder.', ''],
      weights: [
        ...weights('{base}', {
          token_embedding: 'embed_tokens.weight',
          position_embedding: 'embed_positions.weight',
          ...(finalNorm && {
            'final_norm.weight': 'final_layer_norm.weight',
            'final_norm.bias': 'final_layer_norm.bias',
          }),
          ...(embeddingSize !== hiddenSize && {
            embedding_projection: 'project_in.weight',
            output_projection: 'project_out.weight',
          }),
        }),
        head('lm_head.weight', config.boolean('tie_word_embeddings', true)),
        ...weights(LAYER, biased ? OPT_LAYER : MATRICES),
      ],
    };
  },
};
