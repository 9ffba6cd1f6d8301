import type { DecoderSpec } from '../../DecoderSpec.js';
import { configuredRotary, rotaryFields, rotaryTheta } from '../configRotary.js';
import type { Description, Family, GgufModel } from '../Family.js';
import { LIMITS, type Fields } from '../Fields.js';
import { gatedGguf, LLAMA_BASES, LLAMA_LAYER, readSizes, type GatedDefaults } from '../gatedDecoder.js';
import { activation, rotary, sameLayers } from '../specs.js';
import { fusedGateUp, fusedQueryKeyValue, GGUF_LAYER, ggufAttention, ggufGlobals, head, weights } from '../weights.js';

const DEFAULTS: GatedDefaults = {
  vocabulary: 32064,
  hidden: 3072,
  feedForward: 8192,
  layers: 32,
  heads: 32,
  kvHeads: null,
  headDim: null,
  context: 4096,
  epsilon: 1e-5,
  theta: 10000,
};

/**
 * Phi-3, Phi-3.5, Phi-4 and Phi-4-mini: q, k, v and gate, up fused; LongRoPE for the long ones; perhaps a window,
 * perhaps partly rotated heads.
 */
export const phi3: Family = {
  modelTypes: ['phi3'],
  fromConfig(config: Fields): Description {
    const sizes = readSizes(config, DEFAULTS);
    const settings = rotaryFields(config);
    const share = { min: 0, max: 1 };
    const rotated = settings.has('partial_rotary_factor')
      ? settings.number('partial_rotary_factor', share)
      : config.number('partial_rotary_factor', share, 1);
    const dims = Math.floor(sizes.headDim * rotated);
    if (dims < 2 || dims % 2 !== 0)
      config.refuse('partial_rotary_factor', 'a share that rotates an even number of elements, at least 2');
    // transformers lets the configuration's own field, or its default, overrule the rotary settings here.
    const originalContext = config.integer('original_max_position_embeddings', LIMITS.context, 4096);
    const { table, contextTokens } = configuredRotary(phiRotary(settings, originalContext), {
      dims,
      theta: rotaryTheta(settings, config, 'rope_theta', DEFAULTS.theta),
      contextTokens: sizes.contextTokens,
    });
    const decoder: DecoderSpec = {
      family: 'phi3',
      ...sizes,
      contextTokens,
      norm: { kind: 'rms', epsilon: config.number('rms_norm_eps', LIMITS.epsilon, DEFAULTS.epsilon) },
      residual: 'pre',
      finalNorm: true,
      embedding: { size: sizes.hiddenSize, scale: 1 },
      attention: { scale: sizes.headDim ** -0.5, qkNorm: 'none' },
      position: rotary('halves', dims, table),
      feedForward: { kind: 'gated', activation: activation(config, 'hidden_act', 'silu') },
      layerSpecs: sameLayers(sizes.layers, config.integerOrNull('sliding_window', LIMITS.window, null) ?? 0),
    };
    return {
      decoder,
      bases: LLAMA_BASES,
      weights: [
        ...weights('{base}', { token_embedding: 'embed_tokens.weight', 'final_norm.weight': 'norm.weight' }),
        head('lm_head.weight', config.boolean('tie_word_embeddings', false)),
        ...fusedQueryKeyValue(`${LLAMA_LAYER}self_attn.qkv_proj`, decoder, 1, ['weight']),
        ...fusedGateUp(`${LLAMA_LAYER}mlp.gate_up_proj.weight`, decoder.feedForwardSize),
        ...weights(LLAMA_LAYER, {
          'norm1.weight': 'input_layernorm.weight',
          'norm2.weight': 'post_attention_layernorm.weight',
          'o.weight': 'self_attn.o_proj.weight',
          'down.weight': 'mlp.down_proj.weight',
        }),
      ],
    };
  },
  gguf: { architecture: 'phi3', describe: describeGguf },
};

function describeGguf(model: GgufModel): Description {
  const { fields, tensors } = model;
  const spec = gatedGguf('phi3', model, 'halves');
  const window = fields.integer('attention.sliding_window', { min: 0, max: LIMITS.window.max }, 0);
  const decoder: DecoderSpec = { ...spec, layerSpecs: sameLayers(spec.layers, window) };
  const attention = tensors.has('blk.0.attn_qkv.weight')
    ? [
        ...fusedQueryKeyValue(`${GGUF_LAYER}attn_qkv`, decoder, 1, ['weight']),
        ...weights(GGUF_LAYER, { 'o.weight': 'attn_output.weight' }),
      ]
    : ggufAttention();
  return {
    decoder,
    weights: [
      ...ggufGlobals(),
      ...attention,
      ...fusedGateUp(`${GGUF_LAYER}ffn_up.weight`, decoder.feedForwardSize),
      ...weights(GGUF_LAYER, {
        'norm1.weight': 'attn_norm.weight',
        'norm2.weight': 'ffn_norm.weight',
        'down.weight': 'ffn_down.weight',
      }),
    ],
  };
}

/**
 * The rotary settings with this family's spellings undone: `su` and `yarn` are LongRoPE, and the original context is
 * the configuration's.
 */
function phiRotary(settings: Fields, originalContext: number): Fields {
  const type = settings.string(settings.has('rope_type') ? 'rope_type' : 'type', 'default');
  if (type === 'default') return settings.with({ rope_type: type });
  if (!['longrope', 'su', 'yarn'].includes(type)) settings.refuse('rope_type', 'default or longrope', type);
  return settings.with({ rope_type: 'longrope', original_max_position_embeddings: originalContext });
}
