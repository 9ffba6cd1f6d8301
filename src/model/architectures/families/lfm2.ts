import { wholeHeadRotary } from '../configRotary.js';
import type { Description, Family } from '../Family.js';
import { LIMITS, type Fields } from '../Fields.js';
import { LLAMA_BASES, LLAMA_LAYER, readSizes, type GatedDefaults } from '../gatedDecoder.js';
import { mixedLayers } from '../mixers.js';
import { rotary } from '../specs.js';
import { head, weights } from '../weights.js';

const DEFAULTS: GatedDefaults = {
  vocabulary: 65536,
  hidden: 2560,
  feedForward: 12288,
  layers: 32,
  heads: 32,
  kvHeads: 8,
  headDim: null,
  context: 128000,
  epsilon: 1e-5,
  theta: 1e6,
};

/** LFM2: most layers are a gated convolution over the last few tokens, the others attend. */
export const lfm2: Family = {
  modelTypes: ['lfm2'],
  fromConfig(config: Fields): Description {
    const sizes = readSizes(
      config.with({ intermediate_size: config.raw('intermediate_size') ?? config.raw('block_ff_dim') }),
      DEFAULTS,
    );
    const { headDim, hiddenSize, layers } = sizes;
    const { table, contextTokens } = wholeHeadRotary(config, headDim, sizes.contextTokens, DEFAULTS.theta);
    const taps = config.integer('conv_L_cache', { min: 1, max: 64 }, 3);
    if (config.boolean('conv_bias', false)) config.refuse('conv_bias', 'false');
    const full = config.raw('full_attn_idxs');
    const attends = (layer: number): boolean => !Array.isArray(full) || full.includes(layer);
    return {
      decoder: {
        family: 'lfm2',
        ...sizes,
        contextTokens,
        feedForwardSize: feedForwardSize(config, sizes.feedForwardSize),
        norm: { kind: 'rms', epsilon: config.number('norm_eps', LIMITS.epsilon, DEFAULTS.epsilon) },
        residual: 'pre',
        finalNorm: true,
        embedding: { size: hiddenSize, scale: 1 },
        attention: { scale: headDim ** -0.5, qkNorm: 'head' },
        recurrent: { taps },
        position: rotary('halves', headDim, table),
        feedForward: { kind: 'gated', activation: 'silu' },
        layerSpecs: mixedLayers(config, layers, 'conv', 'short-convolution', attends),
      },
      bases: LLAMA_BASES,
      weights: [
        ...weights('{base}', { token_embedding: 'embed_tokens.weight', 'final_norm.weight': 'embedding_norm.weight' }),
        head('lm_head.weight', config.boolean('tie_word_embeddings', config.boolean('tie_embedding', true))),
        ...weights(LLAMA_LAYER, {
          'norm1.weight': 'operator_norm.weight',
          'norm2.weight': 'ffn_norm.weight',
          'gate.weight': 'feed_forward.w1.weight',
          'up.weight': 'feed_forward.w3.weight',
          'down.weight': 'feed_forward.w2.weight',
        }),
        ...weights(
          LLAMA_LAYER,
          {
            'q.weight': 'self_attn.q_proj.weight',
            'k.weight': 'self_attn.k_proj.weight',
            'v.weight': 'self_attn.v_proj.weight',
            'o.weight': 'self_attn.out_proj.weight',
            'q_norm.weight': 'self_attn.q_layernorm.weight',
            'k_norm.weight': 'self_attn.k_layernorm.weight',
          },
          { mixer: 'attention' },
        ),
        ...weights(
          LLAMA_LAYER,
          { 'conv.weight': 'conv.conv.weight' },
          { mixer: 'short-convolution', shape: [hiddenSize, 1, taps] },
        ),
        ...weights(
          LLAMA_LAYER,
          { 'conv_in.weight': 'conv.in_proj.weight', 'conv_out.weight': 'conv.out_proj.weight' },
          { mixer: 'short-convolution' },
        ),
      ],
    };
  },
};

/** Of the size that is given two thirds, which are multiplied and rounded up, unless the configuration says not to. */
function feedForwardSize(config: Fields, given: number): number {
  if (!config.boolean('block_auto_adjust_ff_dim', true)) return given;
  const multiplier = config.number('block_ffn_dim_multiplier', { min: 0.001, max: 1000 }, 1);
  const multiple = config.integer('block_multiple_of', LIMITS.feedForward, 256);
  return multiple * Math.ceil(Math.floor(multiplier * Math.floor((2 * given) / 3)) / multiple);
}
