import type { DecoderSpec, LayerSpec } from '../../DecoderSpec.js';
import { wholeHeadRotary } from '../configRotary.js';
import type { Description, Family, GgufModel, WeightSource } from '../Family.js';
import { LIMITS, type Fields } from '../Fields.js';
import { gatedConfig, gatedGguf, LLAMA_LAYER, type GatedDefaults } from '../gatedDecoder.js';
import { scaled } from '../queryScale.js';
import { rotary } from '../specs.js';
import {
  GGUF_GATED,
  GGUF_LAYER,
  ggufAttention,
  ggufExperts,
  ggufGlobals,
  head,
  stackedExperts,
  weights,
} from '../weights.js';

const DEFAULTS: GatedDefaults = {
  vocabulary: 202048,
  hidden: 5120,
  feedForward: 8192,
  layers: 48,
  heads: 40,
  kvHeads: 8,
  headDim: 128,
  context: 131072,
  epsilon: 1e-5,
  theta: 500000,
};
const DENSE_SIZE = 16384;
const EXPERTS = 16;
const CHUNK = 8192;
/** Every so-manieth layer sees all tokens, without rotation. */
const INTERVAL = 4;
const TEMPERATURE = { factor: 0.1, period: 8192 };
/** The text model by itself, and with what sees. */
const BASES = ['language_model.model.', 'model.language_model.', 'model.', ''];
const HEADS = ['language_model.lm_head.weight', 'lm_head.weight'];

/** Facts in both formats. */
interface Facts {
  readonly rotates: (layer: number) => boolean;
  /** 0: such layers see all tokens, too. */
  readonly chunk: number;
  readonly chunked: (layer: number) => boolean;
  readonly normed: boolean;
  readonly temperature: { readonly factor: number; readonly period: number } | undefined;
  readonly sparse: (layer: number) => boolean;
  readonly experts: { readonly count: number; readonly perToken: number };
  readonly denseSize: number;
}

/**
 * LLaMA 4, the language model: layers that see a chunk, those between without rotation that see all tokens; an expert
 * for each token, whose input is weighed, beside a shared block.
 */
export const llama4: Family = {
  modelTypes: ['llama4_text', 'llama4'],
  fromConfig(outer: Fields, tensors): Description {
    const config = outer.child('text_config') ?? outer;
    if (config.boolean('attention_bias', false)) config.refuse('attention_bias', 'false');
    const plain = gatedConfig('llama4', config, DEFAULTS);
    const { layers, headDim, contextTokens } = plain;
    const interval = config.integer('no_rope_layer_interval', LIMITS.layers, INTERVAL);
    const listed = numbers(config, 'no_rope_layers', layers);
    const rotates = (layer: number): boolean => (listed?.length ? listed[layer] !== 0 : (layer + 1) % interval !== 0);
    const step = config.integer('interleave_moe_layer_step', LIMITS.layers, 1);
    const sparse = numbers(config, 'moe_layers', layers);
    const types = config.raw('layer_types');
    if (types !== undefined && types !== null && (!Array.isArray(types) || types.length !== layers))
      config.refuse('layer_types', `an array of ${layers}, one entry a layer`);
    const chunk = config.integerOrNull('attention_chunk_size', LIMITS.window, CHUNK) ?? 0;
    const decoder = describe(
      {
        ...plain,
        position: rotary('pairs', headDim, wholeHeadRotary(config, headDim, contextTokens, DEFAULTS.theta).table),
      },
      {
        rotates,
        chunk,
        chunked: (layer) => (Array.isArray(types) ? types[layer] === 'chunked_attention' : rotates(layer)),
        normed: config.boolean('use_qk_norm', true),
        temperature: config.boolean('attn_temperature_tuning', true)
          ? {
              factor: config.number('attn_scale', { min: -1e3, max: 1e3 }, TEMPERATURE.factor),
              period: config.integer('floor_scale', LIMITS.context, TEMPERATURE.period),
            }
          : undefined,
        sparse: (layer) => (sparse ? sparse.includes(layer) : (layer + 1) % step === 0),
        experts: {
          count: config.integer('num_local_experts', LIMITS.experts, EXPERTS),
          perToken: config.integer('num_experts_per_tok', LIMITS.experts, 1),
        },
        denseSize: config.integer('intermediate_size_mlp', LIMITS.feedForward, DENSE_SIZE),
      },
    );
    const found = HEADS.find((name) => tensors?.has(name) === true) ?? 'lm_head.weight';
    const tied = outer.boolean('tie_word_embeddings', config.boolean('tie_word_embeddings', false));
    return { decoder, bases: BASES, weights: [head(found, tied), ...configWeights(decoder)] };
  },
  gguf: { architecture: 'llama4', describe: describeGguf },
};

/** A list of whole numbers from 0 on, at most one a layer. */
function numbers(config: Fields, key: string, layers: number): readonly number[] | undefined {
  const listed = config.raw(key);
  if (listed === undefined || listed === null) return undefined;
  if (!Array.isArray(listed) || listed.length > layers || !listed.every((each) => Number.isSafeInteger(each)))
    return config.refuse(key, `a list of at most ${layers} whole numbers`);
  return listed as number[];
}

function describe(plain: DecoderSpec, facts: Facts): DecoderSpec {
  const { feedForwardSize } = plain;
  const layerSpecs = plain.layerSpecs.map((_, layer): LayerSpec => {
    const chunked = facts.chunk > 0 && facts.chunked(layer);
    return {
      window: chunked ? facts.chunk : 0,
      ...(chunked && { chunked }),
      rotaryTable: facts.rotates(layer) ? 0 : 'none',
      ...(!facts.sparse(layer) && { dense: true }),
    };
  });
  const decoder: DecoderSpec = {
    ...plain,
    attention: { ...plain.attention, qkNorm: facts.normed ? 'unit' : 'none' },
    layerSpecs,
    feedForward: {
      ...plain.feedForward,
      kind: 'experts',
      experts: {
        ...facts.experts,
        router: { score: 'sigmoid', normalised: false, scale: 1, choiceBias: false, weighsInputs: true },
        shared: { size: feedForwardSize, gate: false },
        ...(layerSpecs.some(({ dense }) => dense) && { denseSize: facts.denseSize }),
      },
    },
  };
  const { temperature } = facts;
  return temperature
    ? scaled(decoder, temperature.factor, temperature.period, 1, (layer) => !facts.rotates(layer))
    : decoder;
}

const isSparse =
  (decoder: DecoderSpec) =>
  (layer: number): boolean =>
    decoder.layerSpecs[layer]?.dense !== true;

function only(layers: (layer: number) => boolean, sources: readonly WeightSource[]): WeightSource[] {
  return sources.map((source) => ({ ...source, layers }));
}

function configWeights(decoder: DecoderSpec): WeightSource[] {
  const { feedForwardSize, feedForward } = decoder;
  const sparse = isSparse(decoder);
  const block = (inside: string): WeightSource[] =>
    weights(LLAMA_LAYER, {
      'gate.weight': `feed_forward.${inside}gate_proj.weight`,
      'up.weight': `feed_forward.${inside}up_proj.weight`,
      'down.weight': `feed_forward.${inside}down_proj.weight`,
    });
  return [
    ...weights('{base}', { token_embedding: 'embed_tokens.weight', 'final_norm.weight': 'norm.weight' }),
    ...weights(LLAMA_LAYER, {
      'norm1.weight': 'input_layernorm.weight',
      'norm2.weight': 'post_attention_layernorm.weight',
      'q.weight': 'self_attn.q_proj.weight',
      'k.weight': 'self_attn.k_proj.weight',
      'v.weight': 'self_attn.v_proj.weight',
      'o.weight': 'self_attn.o_proj.weight',
    }),
    ...only((layer) => !sparse(layer), block('')),
    ...only(sparse, [
      ...block('shared_expert.'),
      ...weights(LLAMA_LAYER, { 'router.weight': 'feed_forward.router.weight' }),
      ...stackedExperts(feedForward.experts?.count ?? 0, 'weight', (role) => ({
        tensor: `${LLAMA_LAYER}feed_forward.experts.${role === 'down' ? 'down' : 'gate_up'}_proj`,
        turned: true,
        ...(role !== 'down' && {
          part: { groups: 1, sizes: [feedForwardSize, feedForwardSize], index: role === 'gate' ? 0 : 1 },
        }),
      })),
    ]),
  ];
}

/** llama.cpp's format says neither chunks nor temperature: what published models have. */
function describeGguf(model: GgufModel): Description {
  const { fields, tensors } = model;
  const plain = gatedGguf('llama4', model, 'pairs');
  const step = fields.integer('interleave_moe_layer_step', LIMITS.layers, 1);
  const rotates = (layer: number): boolean => (layer + 1) % INTERVAL !== 0;
  const count = fields.integer('expert_count', LIMITS.experts);
  const denseSize = plain.feedForwardSize;
  const width = fields.uniformInteger('expert_feed_forward_length', LIMITS.feedForward, denseSize);
  const decoder = describe(
    { ...plain, feedForwardSize: width },
    {
      rotates,
      chunk: CHUNK,
      chunked: rotates,
      // Of Maverick, 128 experts, heads are not normed.
      normed: count !== 128,
      temperature: TEMPERATURE,
      sparse: (layer) => (layer + 1) % step === 0,
      experts: { count, perToken: fields.integer('expert_used_count', LIMITS.experts) },
      denseSize,
    },
  );
  const sparse = isSparse(decoder);
  const first = decoder.layerSpecs.findIndex((_, layer) => sparse(layer));
  return {
    decoder,
    weights: [
      ...ggufGlobals(),
      ...ggufAttention(),
      ...weights(GGUF_LAYER, { 'norm1.weight': 'attn_norm.weight', 'norm2.weight': 'ffn_norm.weight' }),
      ...only((layer) => !sparse(layer), weights(GGUF_LAYER, GGUF_GATED)),
      ...only(sparse, [
        ...weights(GGUF_LAYER, {
          'router.weight': 'ffn_gate_inp.weight',
          'gate.weight': 'ffn_gate_shexp.weight',
          'up.weight': 'ffn_up_shexp.weight',
          'down.weight': 'ffn_down_shexp.weight',
        }),
        ...ggufExperts(tensors, count, Math.max(0, first)),
      ]),
    ],
  };
}
