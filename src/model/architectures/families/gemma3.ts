import type { DecoderSpec } from '../../DecoderSpec.js';
import { configuredRotary, rotaryTheta } from '../configRotary.js';
import type { Description, Family, GgufModel } from '../Family.js';
import { Fields, LIMITS } from '../Fields.js';
import { gatedConfig, gatedFeedForwardWeights, gatedGguf, LLAMA_LAYER, type GatedDefaults } from '../gatedDecoder.js';
import { defaultFrequencies } from '../rotaryFrequencies.js';
import { slidingLayers, windowedLayers } from '../slidingLayers.js';
import { activation, rotary } from '../specs.js';
import { GGUF_GATED, GGUF_LAYER, ggufAttention, ggufGlobals, head, weights } from '../weights.js';

const DEFAULTS: GatedDefaults = {
  vocabulary: 262208,
  hidden: 2304,
  feedForward: 9216,
  layers: 26,
  heads: 8,
  kvHeads: 4,
  headDim: 256,
  context: 131072,
  epsilon: 1e-6,
  theta: 1e6,
};
const LOCAL_THETA = 10000;
/** Text models; checkpoints with a vision tower, as transformers 4 and 5 name their tensors. */
const BASES = ['model.', 'language_model.model.', 'model.language_model.', ''];
/** Every sixth layer sees all tokens, the others a window. */
const PATTERN = 6;

/**
 * Gemma 3, the language model: norms round both branches, q and k norms, and sliding layers with a rotary base of their
 * own.
 */
export const gemma3: Family = {
  modelTypes: ['gemma3_text', 'gemma3'],
  fromConfig(outer: Fields): Description {
    const config = outer.child('text_config') ?? outer;
    if (config.boolean('use_bidirectional_attention', false))
      config.refuse('use_bidirectional_attention', 'false: only causal models generate');
    for (const key of ['final_logit_softcapping', 'attn_logit_softcapping']) {
      if (config.numberOrNull(key, { min: 0, max: 1e6 }))
        config.refuse(key, 'null: soft caps are not supported (Gemma 3 has none)');
    }
    // The rotary settings come in forms that only this family has: read here, not by gatedConfig.
    const decoder = gatedConfig('gemma3', withoutRotary(config), DEFAULTS);
    const { headDim, contextTokens } = decoder;
    const pattern = config.integer('sliding_window_pattern', { min: 1, max: LIMITS.layers.max }, PATTERN);
    const sliding = slidingLayers(config, decoder.layers, (layer) => (layer + 1) % pattern !== 0);
    const global = globalRotary(config);
    const local =
      config.child('rope_parameters')?.child('sliding_attention') ??
      Fields.ofObject(config.file, {}, 'rope_parameters');
    const tables = [
      configuredRotary(global, {
        dims: headDim,
        contextTokens,
        theta: rotaryTheta(global, config, 'rope_theta', DEFAULTS.theta),
      }).table,
      configuredRotary(local, {
        dims: headDim,
        contextTokens,
        theta: rotaryTheta(local, config, 'rope_local_base_freq', LOCAL_THETA),
      }).table,
    ];
    const biases = config.boolean('attention_bias', false) ? (['q', 'k', 'v', 'o'] as const) : [];
    return {
      decoder: {
        ...sandwich(decoder, config.number('query_pre_attn_scalar', { min: 1e-6, max: 1e6 }, 256) ** -0.5),
        position: rotary('halves', headDim, ...tables),
        feedForward: { kind: 'gated', activation: activation(config, 'hidden_activation', 'gelu_pytorch_tanh') },
        layerSpecs: windowedLayers(config, sliding, config.integerOrNull('sliding_window', LIMITS.window, 4096), 1),
      },
      bases: BASES,
      weights: [
        ...weights('{base}', { token_embedding: 'embed_tokens.weight' }),
        ...weights('{base}', { 'final_norm.weight': 'norm.weight' }, { add: 1 }),
        head('lm_head.weight', outer.boolean('tie_word_embeddings', true)),
        ...weights(
          LLAMA_LAYER,
          {
            'norm1.weight': 'input_layernorm.weight',
            'post_norm1.weight': 'post_attention_layernorm.weight',
            'norm2.weight': 'pre_feedforward_layernorm.weight',
            'post_norm2.weight': 'post_feedforward_layernorm.weight',
            'q_norm.weight': 'self_attn.q_norm.weight',
            'k_norm.weight': 'self_attn.k_norm.weight',
          },
          { add: 1 },
        ),
        ...(['q', 'k', 'v', 'o'] as const).flatMap((role) =>
          weights(LLAMA_LAYER, { [`${role}.weight`]: `self_attn.${role}_proj.weight` }),
        ),
        ...biases.flatMap((role) => weights(LLAMA_LAYER, { [`${role}.bias`]: `self_attn.${role}_proj.bias` })),
        ...gatedFeedForwardWeights(),
      ],
    };
  },
  gguf: { architecture: 'gemma3', describe: describeGguf },
};

/** llama.cpp's format: the pattern and the local base are fixed unless stated, the norms hold weight + 1 already. */
function describeGguf(model: GgufModel): Description {
  const { fields } = model;
  const decoder = gatedGguf('gemma3', model, 'halves');
  if (fields.numberOrNull('final_logit_softcapping', { min: 0, max: 1e6 })) {
    fields.refuse('final_logit_softcapping', '0 or nothing: soft caps are not supported (Gemma 3 has none)');
  }
  const { headDim, hiddenSize, heads, layers, position } = decoder;
  if (position.kind !== 'rotary') throw new TypeError('gatedGguf describes rotary models');
  const window = fields.integer('attention.sliding_window', { min: 0, max: LIMITS.window.max }, 0);
  // The format has no key for query_pre_attn_scalar; llama.cpp knows the one size that differs by its 62 layers.
  const scalar = layers === 62 ? hiddenSize / heads : headDim;
  const scale = fields.number('attention.scale', { min: 1e-6, max: 1e3 }, scalar ** -0.5);
  const localTheta = fields.number('rope.freq_base_swa', LIMITS.theta, LOCAL_THETA);
  const local = { frequencies: defaultFrequencies(localTheta, position.dims), scale: 1 };
  return {
    decoder: {
      ...sandwich(decoder, scale),
      position: rotary('halves', position.dims, ...position.tables, local),
      feedForward: { kind: 'gated', activation: 'gelu-tanh' },
      layerSpecs: windowedLayers(
        fields,
        window === 0 ? Array<boolean>(layers).fill(false) : ggufSliding(fields, layers),
        window,
        1,
      ),
    },
    weights: [
      ...ggufGlobals(),
      ...ggufAttention(),
      ...weights(GGUF_LAYER, {
        'norm1.weight': 'attn_norm.weight',
        'post_norm1.weight': 'post_attention_norm.weight',
        'norm2.weight': 'ffn_norm.weight',
        'post_norm2.weight': 'post_ffw_norm.weight',
        'q_norm.weight': 'attn_q_norm.weight',
        'k_norm.weight': 'attn_k_norm.weight',
        ...GGUF_GATED,
      }),
    ],
  };
}

/** `attention.sliding_window_pattern` is a period, or one entry a layer, true (or 1) where the layer slides. */
function ggufSliding(fields: Fields, layers: number): boolean[] {
  const given = fields.raw('attention.sliding_window_pattern');
  if (Array.isArray(given) || ArrayBuffer.isView(given)) {
    const entries = Array.from(given as unknown as ArrayLike<unknown>);
    if (entries.length < layers)
      fields.refuse('attention.sliding_window_pattern', `an entry for each of ${layers} layers`);
    return entries.slice(0, layers).map((entry) => entry === true || entry === 1);
  }
  const period = fields.integer('attention.sliding_window_pattern', { min: 1, max: LIMITS.layers.max }, PATTERN);
  return Array.from({ length: layers }, (_, layer) => (layer + 1) % period !== 0);
}

function sandwich(decoder: DecoderSpec, scale: number): DecoderSpec {
  return {
    ...decoder,
    residual: 'sandwich',
    embedding: { size: decoder.hiddenSize, scale: Math.fround(Math.sqrt(decoder.hiddenSize)) },
    attention: { scale, qkNorm: true },
  };
}

/**
 * The settings of the layers that see everything: transformers 4 has them in `rope_scaling`, 5 under `full_attention`.
 */
function globalRotary(config: Fields): Fields {
  return (
    config.child('rope_parameters')?.child('full_attention') ??
    config.child('rope_scaling') ??
    Fields.ofObject(config.file, {}, 'rope_parameters')
  );
}

function withoutRotary(config: Fields): Fields {
  return config.with({ rope_parameters: undefined, rope_scaling: undefined, partial_rotary_factor: undefined });
}
