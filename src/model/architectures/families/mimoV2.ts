import type { DecoderSpec } from '../../DecoderSpec.js';
import type { GgufModel } from '../Family.js';
import type { TensorIndex } from '../TensorIndex.js';
import { LIMITS, type Fields } from '../Fields.js';
import { LLAMA_LAYER, type GatedDefaults } from '../gatedDecoder.js';
import { biases, gatedFamily } from '../gatedFamily.js';
import {
  ggufMixture,
  ggufMixtureWeights,
  listedDenseLayers,
  mixtureWeights,
  sigmoidRouter,
  withExperts,
} from '../mixture.js';
import { skipNextTokenLayers } from '../nextTokenLayers.js';
import { defaultFrequencies } from '../rotaryFrequencies.js';
import { rotaryTables } from '../rotaryTables.js';
import { ggufSlidingLayers, slidingLayers, windowedLayers } from '../slidingLayers.js';
import { rotary } from '../specs.js';
import { GGUF_LAYER } from '../weights.js';

const DEFAULTS: GatedDefaults = {
  vocabulary: 152576,
  hidden: 4096,
  feedForward: 16384,
  layers: 48,
  heads: 64,
  kvHeads: 4,
  headDim: 192,
  context: 131072,
  epsilon: 1e-5,
  theta: 5000000,
};
const VALUE_DIM = 128;
const VALUE_SCALE = 0.707;
/** Sizes that layers with a window have as the others do, by default. */
const ALIKE = { num_attention_heads: DEFAULTS.heads, head_dim: DEFAULTS.headDim, v_head_dim: VALUE_DIM };
const LOCAL_THETA = 10000;
const ROTATED_SHARE = 0.334;
/** transformers' own, in which a query sees itself and 128 positions before it. */
const WINDOW = 129;
/** The first layer and every sixth see all tokens. */
const PATTERN = 6;

/** Facts that both formats state. */
interface Facts {
  readonly sliding: readonly boolean[];
  readonly window: number;
  readonly slidingKvHeads: number;
  readonly valueDim: number;
  readonly valueScale: number;
}

/** Windows with sinks and more key heads, values that are shorter than keys, and scaled. */
function attending(fields: Fields, decoder: DecoderSpec, facts: Facts): DecoderSpec {
  const { sliding, window, slidingKvHeads, valueDim, valueScale } = facts;
  return {
    ...decoder,
    attention: {
      ...decoder.attention,
      ...(sliding.includes(true) && { sinks: true }),
      ...(valueDim !== decoder.headDim && { valueDim }),
      ...(valueScale !== 1 && { outputScale: valueScale }),
    },
    layerSpecs: windowedLayers(fields, sliding, window, 1).map((layer, index) =>
      sliding[index] === true && slidingKvHeads !== decoder.kvHeads ? { ...layer, kvHeads: slidingKvHeads } : layer,
    ),
  };
}

/** A published list of 0 and 1 as transformers 5 says it. */
function listed(config: Fields, key: string, names: readonly [string, string]): unknown {
  const given = config.raw(key);
  return Array.isArray(given) ? given.map((entry) => (entry === 0 ? names[0] : names[1])) : undefined;
}

/** The configuration as transformers 5 has it, of one as published. */
function published(config: Fields): Fields {
  if (config.string('attention_projection_layout', 'split') === 'fused_qkv')
    config.refuse('attention_projection_layout', 'queries, keys and values apart');
  for (const [key, otherwise] of Object.entries(ALIKE))
    if (config.has(`swa_${key}`) && config.raw(`swa_${key}`) !== (config.has(key) ? config.raw(key) : otherwise))
      config.refuse(`swa_${key}`, `as ${key}: layers with a window have as many`);
  const share = config.numberOrNull('partial_rotary_factor', { min: 0, max: 1 }) ?? ROTATED_SHARE;
  const of = (theta: number): unknown => ({ rope_theta: theta, partial_rotary_factor: share });
  return config.with({ partial_rotary_factor: undefined }).withDefaults({
    layer_types: listed(config, 'hybrid_layer_pattern', ['full_attention', 'sliding_attention']),
    mlp_layer_types: listed(config, 'moe_layer_freq', ['dense', 'sparse']),
    rms_norm_eps: config.raw('layernorm_epsilon'),
    routed_scaling_factor: 1,
    rope_parameters: {
      full_attention: of(config.number('rope_theta', LIMITS.theta, DEFAULTS.theta)),
      sliding_attention: of(config.number('swa_rope_theta', LIMITS.theta, LOCAL_THETA)),
    },
  });
}

/**
 * Positions that a query of a layer with a window sees, its own among them. Published configurations have both keys, of
 * which transformers takes `sliding_window_size`, of positions before the query, and one more.
 */
function windowOf(config: Fields): number {
  const before = config.integerOrNull('sliding_window_size', LIMITS.window, null);
  return before === null ? config.integer('sliding_window', LIMITS.window, WINDOW) : before + 1;
}

/** Metadata with one size where layers, and keys and values, have several: `kvHeads` and `valueDim` say these. */
function alike(model: GgufModel): GgufModel {
  const { fields } = model;
  const heads = fields.uniformInteger('attention.head_count', LIMITS.heads);
  return {
    ...model,
    fields: fields.with({ 'attention.value_length': undefined, 'attention.head_count_kv': heads }),
  };
}

/** The key and value heads of layers with a window, or of those without. */
function kvHeads(fields: Fields, layers: number, sliding: readonly boolean[], slides: boolean): number {
  const all = fields.integers('attention.head_count_kv', layers, LIMITS.heads);
  const own = all.filter((_, layer) => sliding[layer] === slides);
  const [first = all[0] ?? 1] = own;
  return own.every((heads) => heads === first)
    ? first
    : fields.refuse('attention.head_count_kv', 'as many in all layers with a window, and in all others');
}

/** The first layer with experts. */
function firstSparse(tensors: TensorIndex, layers: number): number {
  const found = Array.from({ length: layers }, (_, layer) => tensors.has(`blk.${layer}.ffn_gate_inp.weight`));
  return Math.max(found.indexOf(true), 0);
}

/** MiMo V2: windows with sinks among layers that see everything, values shorter than keys, and experts. */
export const mimoV2 = gatedFamily({
  family: 'mimo_v2_flash',
  defaults: DEFAULTS,
  prepare: published,
  decoder(decoder, config) {
    const { headDim, contextTokens, kvHeads } = decoder;
    const sliding = slidingLayers(config, decoder.layers, (layer) => layer > 0 && (layer + 1) % PATTERN !== 0);
    const rotated = rotaryTables(config, headDim, contextTokens, DEFAULTS.theta, LOCAL_THETA, ROTATED_SHARE);
    const attended = attending(
      config,
      { ...decoder, contextTokens: rotated.contextTokens, position: rotary('halves', rotated.dims, ...rotated.tables) },
      {
        sliding,
        window: windowOf(config),
        slidingKvHeads: config.integer('swa_num_key_value_heads', LIMITS.heads, 2 * kvHeads),
        valueDim: config.integer('v_head_dim', LIMITS.headDim, VALUE_DIM),
        valueScale: config.has('attention_value_scale')
          ? (config.numberOrNull('attention_value_scale', LIMITS.factor) ?? 1)
          : VALUE_SCALE,
      },
    );
    return withExperts(attended, {
      count: config.integer('n_routed_experts', LIMITS.experts, 256),
      perToken: config.integer('num_experts_per_tok', LIMITS.experts, 8),
      width: config.integer('moe_intermediate_size', LIMITS.feedForward, 2048),
      router: sigmoidRouter(config),
      dense: listedDenseLayers(config, decoder.layers) ?? ((layer) => layer === 0),
    });
  },
  names: (config) => biases(config.boolean('attention_bias', false), 'q', 'k', 'v'),
  weights: (decoder, config) => [
    {
      role: 'sinks',
      // As transformers 5 calls it, and as published.
      tensor: `${LLAMA_LAYER}self_attn.sinks`,
      otherwise: `${LLAMA_LAYER}self_attn.attention_sink_bias`,
      layers: (layer) =>
        decoder.layerSpecs[layer]?.window === 0
          ? config.boolean('add_full_attention_sink_bias', false)
          : config.boolean('add_swa_attention_sink_bias', true),
    },
    ...mixtureWeights(decoder),
  ],
  gguf: {
    architecture: 'mimo2',
    rotary: 'halves',
    prepare: alike,
    decoder(decoder, model) {
      const { fields, tensors } = model;
      const stated = skipNextTokenLayers(decoder, model);
      // llama.cpp's files have `sliding_window` here, 128, and its queries see themselves and 127 positions before: one
      // fewer than transformers' do.
      const window = fields.integer('attention.sliding_window', { min: 0, max: LIMITS.window.max });
      const sliding = ggufSlidingLayers(fields, stated.layers, window, PATTERN);
      const theta = fields.number('rope.freq_base_swa', LIMITS.theta, LOCAL_THETA);
      const tables = stated.position.kind === 'rotary' ? stated.position : undefined;
      const own = { frequencies: defaultFrequencies(theta, tables?.dims ?? 0), scale: 1 };
      return ggufMixture(
        attending(
          fields,
          {
            ...stated,
            kvHeads: kvHeads(fields, stated.layers, sliding, false),
            position: rotary('halves', tables?.dims ?? 0, ...(tables?.tables ?? []), own),
          },
          {
            sliding,
            window,
            slidingKvHeads: kvHeads(fields, stated.layers, sliding, true),
            valueDim: fields.integer('attention.value_length', LIMITS.headDim, stated.headDim),
            valueScale: fields.number('attention.value_scale', LIMITS.factor, 1),
          },
        ),
        { ...model, fields: fields.withDefaults({ leading_dense_block_count: firstSparse(tensors, stated.layers) }) },
        { score: 'sigmoid', normalised: true },
      );
    },
    weights: (decoder, model) => [
      { role: 'sinks', tensor: `${GGUF_LAYER}attn_sinks.weight`, optional: true },
      ...ggufMixtureWeights(decoder, model),
    ],
  },
});
