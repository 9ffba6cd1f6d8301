import type { DecoderSpec, LayerSpec } from '../../DecoderSpec.js';
import { configuredRotary, rotaryTheta } from '../configRotary.js';
import type { Description, Family, GgufModel, WeightSource } from '../Family.js';
import { Fields, LIMITS } from '../Fields.js';
import { gatedGguf, LLAMA_LAYER, readSizes, type GatedDefaults } from '../gatedDecoder.js';
import { gemma4GgufWeights, gemma4Weights } from '../gemma4Weights.js';
import { defaultFrequencies } from '../rotaryFrequencies.js';
import { softCaps } from '../sandwichDecoder.js';
import { ggufSlidingLayers, slidingLayers } from '../slidingLayers.js';
import { activation, rotary } from '../specs.js';
import { GGUF_LAYER, weights } from '../weights.js';
import { BASES, GGUF_SHARING, layerSpecs, skipSharedKeys } from './gemma4.js';

const DEFAULTS: GatedDefaults = {
  vocabulary: 262400,
  hidden: 2048,
  feedForward: 16384,
  layers: 35,
  heads: 8,
  kvHeads: 2,
  headDim: 256,
  context: 32768,
  epsilon: 1e-6,
  theta: 1e6,
};
const LOCAL_THETA = 10000;
const WINDOW = 512;
/** Every fifth layer sees all tokens, the others a window. */
const PATTERN = 5;
/** Layers whose gates are cut off where the configuration does not say, and the share of them that is. */
const SPARSE_LAYERS = 10;
const SPARSE_SHARE = 0.95;
const SHARE = { min: 0, max: 1 - 1e-6 };
const DEVIATIONS = { min: -Infinity, max: 10 };
const SOFT_CAPS = { attention: null, logits: 30 };
const STREAMS = { min: 2, max: 4 };
const RANK = { min: 1, max: LIMITS.hidden.max };

/**
 * Gemma 3n, the language model: several streams of hidden states, a product of two beside attention, gates of which
 * most elements are cut off, embeddings for each layer, keys and values that several layers share.
 */
export const gemma3n: Family = {
  modelTypes: ['gemma3n_text', 'gemma3n'],
  fromConfig(outer: Fields): Description {
    const config = outer.child('text_config') ?? outer;
    if (config.boolean('attention_bias', false)) config.refuse('attention_bias', 'false');
    const inner = config.raw('intermediate_size');
    const sizes = readSizes(Array.isArray(inner) ? config.with({ intermediate_size: inner[0] }) : config, DEFAULTS);
    const { layers: count, headDim, contextTokens } = sizes;
    const none = Fields.ofObject(config.file, {}, 'rope_parameters');
    const parameters = config.child('rope_parameters');
    const full = parameters?.child('full_attention') ?? config.child('rope_scaling') ?? none;
    const sliding = parameters?.child('sliding_attention') ?? none;
    const table = (fields: Fields, key: string, theta: number): ReturnType<typeof configuredRotary>['table'] =>
      configuredRotary(fields, { dims: headDim, contextTokens, theta: rotaryTheta(fields, config, key, theta) }).table;
    const decoder = describe(config, sizes, {
      epsilon: config.number('rms_norm_eps', LIMITS.epsilon, DEFAULTS.epsilon),
      activation: activation(config, 'hidden_activation', 'gelu_pytorch_tanh'),
      tables: [table(full, 'rope_theta', DEFAULTS.theta), table(sliding, 'rope_local_base_freq', LOCAL_THETA)],
      sliding: slidingLayers(config, count, (layer) => (layer + 1) % PATTERN !== 0),
      window: config.integer('sliding_window', LIMITS.window, WINDOW),
      sharing: config.integer('num_kv_shared_layers', { min: 0, max: count - 1 }, Math.min(15, count - 1)),
      innerSizes: config.integers('intermediate_size', count, LIMITS.feedForward, DEFAULTS.feedForward),
      deviations: sparsity(config, count).map(deviationsOf),
      streams: config.integer('altup_num_inputs', STREAMS, 4),
      active: config.integer('altup_active_idx', { min: 0, max: 3 }, 0),
      bypassRank: config.integer('laurel_rank', RANK, 64),
      layerInputs: config.integer('hidden_size_per_layer_input', LIMITS.hidden, 256),
      inputTokens: config.integer('vocab_size_per_layer_input', LIMITS.vocabulary, 262144),
    });
    const tied = outer.boolean('tie_word_embeddings', config.boolean('tie_word_embeddings', true));
    const scaled = config.boolean('altup_correct_scale', true);
    const streams = Array.from({ length: (decoder.streams?.count ?? 1) - 1 }, (_, index) => index);
    return {
      decoder,
      bases: BASES,
      weights: [
        ...gemma4Weights(decoder, tied),
        ...streams.flatMap((index) =>
          weights('{base}', {
            [`stream_in.${index + 1}`]: `altup_projections.${index}.weight`,
            [`stream_out.${index + 1}`]: `altup_unembed_projections.${index}.weight`,
          }),
        ),
        ...layerWeights(`${LLAMA_LAYER}altup.`, {
          'stream_norm.weight': 'router_norm.weight',
          stream_router: 'modality_router.weight',
          stream_predict: 'prediction_coefs.weight',
          stream_correct: 'correction_coefs.weight',
          ...(scaled && { stream_scale: 'correct_output_scale' }),
        }),
        ...weights(`${LLAMA_LAYER}laurel.`, {
          'bypass_in.weight': 'linear_left.weight',
          'bypass_out.weight': 'linear_right.weight',
          'bypass_norm.weight': 'post_laurel_norm.weight',
        }),
      ],
    };
  },
  gguf: { architecture: 'gemma3n', describe: describeGguf },
};

/** Vectors here, whatever shape the file has them in. */
const layerWeights = (prefix: string, names: Readonly<Record<string, string>>): WeightSource[] =>
  weights(prefix, names, { reshaped: true });

/** The facts that both formats state. */
interface Stated {
  readonly epsilon: number;
  readonly activation: DecoderSpec['feedForward']['activation'];
  readonly tables: readonly { readonly frequencies: Float32Array; readonly scale: number }[];
  readonly sliding: readonly boolean[];
  readonly window: number;
  readonly sharing: number;
  readonly innerSizes: readonly number[];
  /** 0: a gate is not cut off. */
  readonly deviations: readonly number[];
  readonly streams: number;
  readonly active: number;
  readonly bypassRank: number;
  readonly layerInputs: number;
  readonly inputTokens: number;
}

function describe(fields: Fields, sizes: ReturnType<typeof readSizes>, stated: Stated): DecoderSpec {
  const { headDim, kvHeads, hiddenSize, vocabularySize } = sizes;
  const { sliding, window, sharing, innerSizes, deviations, inputTokens } = stated;
  if (stated.active !== 0) fields.refuse('altup_active_idx', '0: layers compute with the first stream', stated.active);
  const { logits } = softCaps(fields, SOFT_CAPS);
  const layers = layerSpecs(
    fields,
    {
      sliding,
      window,
      headDims: { sliding: headDim, full: headDim },
      kvHeads: sliding.map(() => kvHeads),
      sharing,
      valuesAreKeys: () => false,
      innerSizes,
    },
    headDim,
    kvHeads,
    sizes.feedForwardSize,
  );
  return {
    family: 'gemma3n',
    ...sizes,
    norm: { kind: 'rms', epsilon: stated.epsilon },
    residual: 'sandwich',
    finalNorm: true,
    embedding: { size: hiddenSize, scale: Math.fround(Math.sqrt(hiddenSize)) },
    attention: { scale: 1, qkNorm: 'head', valueNorm: true },
    position: rotary('halves', headDim, ...stated.tables),
    feedForward: { kind: 'gated', activation: stated.activation },
    streams: { count: stated.streams, bypassRank: stated.bypassRank },
    layerInputs: stated.layerInputs,
    ...(inputTokens < vocabularySize && { layerInputTokens: inputTokens }),
    ...(logits !== null && logits > 0 && { logitSoftCap: logits }),
    layerSpecs: layers.map((layer, index): LayerSpec => {
      const gateDeviations = deviations[index] ?? 0;
      return gateDeviations === 0 ? layer : { ...layer, gateDeviations };
    }),
  };
}

/** The share of its gate's elements that each layer cuts off. */
function sparsity(config: Fields, layers: number): readonly number[] {
  const given = config.raw('activation_sparsity_pattern') ?? null;
  if (given !== null && typeof given !== 'number') return config.numbers('activation_sparsity_pattern', layers, SHARE);
  const share = given === null ? SPARSE_SHARE : config.number('activation_sparsity_pattern', SHARE);
  const sparse = given !== null ? layers : layers > SPARSE_LAYERS ? SPARSE_LAYERS : 0;
  return Array.from({ length: layers }, (_, layer) => (layer < sparse ? share : 0));
}

/** Standard deviations above the mean, below which is this share of what is distributed normally; 0 for no share. */
function deviationsOf(share: number): number {
  if (share === 0) return 0;
  const upper = Math.max(share, 1 - share);
  let at = 0;
  // Newton's method from the mean: the distribution's function is concave there, so that it never goes too far.
  for (let step = 0; step < 100; step++) {
    const density = Math.exp((-at * at) / 2) / Math.sqrt(2 * Math.PI);
    let term = at;
    let sum = at;
    for (let odd = 3; Math.abs(term) > 1e-17 * Math.abs(sum); odd += 2) {
      term *= (at * at) / odd;
      sum += term;
    }
    const change = (upper - 0.5 - density * sum) / density;
    at += change;
    if (Math.abs(change) < 1e-12) break;
  }
  return Math.fround(share < 0.5 ? -at : at);
}

/** Negatively infinite where the share is nothing. As in config.json where the file does not say. */
function ggufDeviations(fields: Fields, layers: number): readonly number[] {
  const key = 'activation_sparsity_scale';
  if (!fields.has(key)) return sparsity(fields, layers).map(deviationsOf);
  return fields.numbers(key, layers, DEVIATIONS).map((each) => (each === -Infinity ? 0 : each));
}

/** As llama.cpp has it: with the matrices of streams stacked, and deviations in place of shares. */
function describeGguf(model: GgufModel): Description {
  const { fields, tensors } = model;
  const count = fields.integer('block_count', LIMITS.layers);
  const innerSizes = fields.integers('feed_forward_length', count, LIMITS.feedForward);
  const plain = gatedGguf(
    'gemma3n',
    { ...model, fields: fields.with({ feed_forward_length: innerSizes[0] }) },
    'halves',
  );
  const { headDim, position } = plain;
  if (position.kind !== 'rotary') throw new TypeError('gatedGguf describes rotary models');
  const window = fields.integer('attention.sliding_window', { min: 0, max: LIMITS.window.max }, WINDOW);
  const localTheta = fields.number('rope.freq_base_swa', LIMITS.theta, LOCAL_THETA);
  const sharing = fields.integer('attention.shared_kv_layers', { min: 0, max: count - 1 }, Math.min(15, count - 1));
  const decoder = describe(fields.renamed({ ...GGUF_SHARING, altup_active_idx: 'altup.active_idx' }), plain, {
    epsilon: plain.norm.epsilon,
    activation: 'gelu-tanh',
    tables: [...position.tables, { frequencies: defaultFrequencies(localTheta, headDim), scale: 1 }],
    sliding: ggufSlidingLayers(fields, count, window, PATTERN),
    window,
    sharing,
    innerSizes,
    deviations: ggufDeviations(fields, count),
    streams: fields.integer('altup.num_inputs', STREAMS, 4),
    active: fields.integer('altup.active_idx', { min: 0, max: 3 }, 0),
    bypassRank: tensors.find('blk.0.laurel_l.weight')?.shape[0] ?? 64,
    layerInputs: fields.integer('embedding_length_per_layer_input', LIMITS.hidden, 256),
    inputTokens: tensors.find('per_layer_token_embd.weight')?.shape[0] ?? plain.vocabularySize,
  });
  skipSharedKeys(model, count - sharing);
  const others = (decoder.streams?.count ?? 1) - 1;
  const stacked = (role: 'in' | 'out', tensor: string): WeightSource[] =>
    Array.from({ length: others }, (_, index) => ({
      role: `stream_${role}.${(index + 1) as 1 | 2 | 3}` as const,
      tensor,
      slice: { count: others, index },
    }));
  return {
    decoder,
    weights: [
      ...gemma4GgufWeights(decoder, model),
      ...stacked('in', 'altup_proj.weight'),
      ...stacked('out', 'altup_unembd_proj.weight'),
      ...layerWeights(`${GGUF_LAYER}altup_`, {
        'stream_norm.weight': 'router_norm.weight',
        stream_router: 'router.weight',
        stream_predict: 'predict_coef.weight',
        stream_correct: 'correct_coef.weight',
        stream_scale: 'correct_scale.weight',
      }),
      ...weights(`${GGUF_LAYER}laurel_`, {
        'bypass_in.weight': 'l.weight',
        'bypass_out.weight': 'r.weight',
        'bypass_norm.weight': 'post_norm.weight',
      }),
    ],
  };
}
