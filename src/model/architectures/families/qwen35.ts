import { configuredRotary, rotaryFields, rotaryTheta } from '../configRotary.js';
import type { Description, Family } from '../Family.js';
import { LIMITS, type Fields } from '../Fields.js';
import { gatedFeedForwardWeights, LLAMA_LAYER, readSizes, type GatedDefaults } from '../gatedDecoder.js';
import { mixedLayers } from '../mixers.js';
import { activation, rotary } from '../specs.js';
import { head, weights } from '../weights.js';

const DEFAULTS: GatedDefaults = {
  vocabulary: 248320,
  hidden: 4096,
  feedForward: 12288,
  layers: 32,
  heads: 16,
  kvHeads: 4,
  headDim: 256,
  context: 32768,
  epsilon: 1e-6,
  theta: 10000,
};
const ROTATED_SHARE = 0.25;
/** Every so-manieth layer attends. */
const INTERVAL = 4;
/** The text model by itself, and with one that sees. */
const BASES = ['model.language_model.', 'model.', 'language_model.model.', ''];

/**
 * Qwen 3.5, dense, the language model: three layers of four remember a state by the gated delta rule (Gated DeltaNet),
 * the others gate what attention gives.
 */
export const qwen35: Family = {
  modelTypes: ['qwen3_5_text', 'qwen3_5'],
  fromConfig(outer: Fields): Description {
    const config = outer.child('text_config') ?? outer;
    const sizes = readSizes(config, DEFAULTS);
    const { heads, headDim, layers, hiddenSize } = sizes;
    const settings = rotaryFields(config);
    const share = { min: 0, max: 1 };
    const rotated =
      settings.numberOrNull('partial_rotary_factor', share) ??
      config.numberOrNull('partial_rotary_factor', share) ??
      ROTATED_SHARE;
    const dims = Math.floor(headDim * rotated);
    const { table, contextTokens } = configuredRotary(settings, {
      dims,
      theta: rotaryTheta(settings, config, 'rope_theta', DEFAULTS.theta),
      contextTokens: sizes.contextTokens,
    });
    const interval = config.integer('full_attention_interval', { min: 1, max: LIMITS.layers.max }, INTERVAL);
    const taps = config.integer('linear_conv_kernel_dim', { min: 1, max: 64 }, 4);
    const delta = {
      keyHeads: config.integer('linear_num_key_heads', LIMITS.heads, 16),
      valueHeads: config.integer('linear_num_value_heads', LIMITS.heads, 32),
      keyDim: config.integer('linear_key_head_dim', LIMITS.headDim, 128),
      valueDim: config.integer('linear_value_head_dim', LIMITS.headDim, 128),
    };
    const channels = 2 * delta.keyHeads * delta.keyDim + delta.valueHeads * delta.valueDim;
    const biased = config.boolean('attention_bias', false);
    if (biased) config.refuse('attention_bias', 'false');
    const q = (index: number) => ({ groups: heads, sizes: [headDim, headDim], index });
    return {
      decoder: {
        family: 'qwen3_5',
        ...sizes,
        contextTokens,
        norm: { kind: 'rms', epsilon: config.number('rms_norm_eps', LIMITS.epsilon, DEFAULTS.epsilon) },
        residual: 'pre',
        finalNorm: true,
        embedding: { size: hiddenSize, scale: 1 },
        attention: { scale: headDim ** -0.5, qkNorm: 'head', gate: true },
        recurrent: { taps, delta },
        position: rotary('halves', dims, table),
        feedForward: { kind: 'gated', activation: activation(config, 'hidden_act', 'silu') },
        layerSpecs: mixedLayers(
          config,
          layers,
          'linear_attention',
          'delta-rule',
          (layer) => (layer + 1) % interval === 0,
        ),
      },
      bases: BASES,
      weights: [
        ...weights('{base}', { token_embedding: 'embed_tokens.weight' }),
        ...weights('{base}', { 'final_norm.weight': 'norm.weight' }, { add: 1 }),
        head('lm_head.weight', outer.boolean('tie_word_embeddings', config.boolean('tie_word_embeddings', false))),
        ...weights(
          LLAMA_LAYER,
          { 'norm1.weight': 'input_layernorm.weight', 'norm2.weight': 'post_attention_layernorm.weight' },
          { add: 1 },
        ),
        { role: 'q.weight', tensor: `${LLAMA_LAYER}self_attn.q_proj.weight`, part: q(0), mixer: 'attention' },
        { role: 'q_gate.weight', tensor: `${LLAMA_LAYER}self_attn.q_proj.weight`, part: q(1), mixer: 'attention' },
        ...weights(
          LLAMA_LAYER,
          {
            'k.weight': 'self_attn.k_proj.weight',
            'v.weight': 'self_attn.v_proj.weight',
            'o.weight': 'self_attn.o_proj.weight',
          },
          { mixer: 'attention' },
        ),
        ...weights(
          LLAMA_LAYER,
          { 'q_norm.weight': 'self_attn.q_norm.weight', 'k_norm.weight': 'self_attn.k_norm.weight' },
          { add: 1, mixer: 'attention' },
        ),
        ...weights(
          LLAMA_LAYER,
          { 'delta_conv.weight': 'linear_attn.conv1d.weight' },
          { mixer: 'delta-rule', shape: [channels, 1, taps] },
        ),
        ...weights(
          LLAMA_LAYER,
          {
            'decay.log': 'linear_attn.A_log',
            'decay.bias': 'linear_attn.dt_bias',
            'delta_norm.weight': 'linear_attn.norm.weight',
            'delta_in.weight': 'linear_attn.in_proj_qkv.weight',
            'delta_gate.weight': 'linear_attn.in_proj_z.weight',
            'delta_beta.weight': 'linear_attn.in_proj_b.weight',
            'delta_decay.weight': 'linear_attn.in_proj_a.weight',
            'delta_out.weight': 'linear_attn.out_proj.weight',
          },
          { mixer: 'delta-rule' },
        ),
        ...gatedFeedForwardWeights(),
      ],
    };
  },
};
