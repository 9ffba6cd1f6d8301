import type { DecoderSpec, LayerSpec } from '../../DecoderSpec.js';
import { configuredRotary, rotaryTheta } from '../configRotary.js';
import type { Description, Family, GgufModel } from '../Family.js';
import { Fields, LIMITS } from '../Fields.js';
import { readSizes, type GatedDefaults } from '../gatedDecoder.js';
import { gemma4GgufWeights, gemma4Weights } from '../gemma4Weights.js';
import { ggufRotary } from '../ggufRotary.js';
import { defaultFrequencies, proportionalFrequencies } from '../rotaryFrequencies.js';
import { softCaps } from '../sandwichDecoder.js';
import { ggufSlidingLayers, slidingLayers } from '../slidingLayers.js';
import { activation, rotary } from '../specs.js';

const DEFAULTS: GatedDefaults = {
  vocabulary: 262144,
  hidden: 2304,
  feedForward: 9216,
  layers: 30,
  heads: 8,
  kvHeads: 4,
  headDim: 256,
  context: 131072,
  epsilon: 1e-6,
  theta: 1e6,
};
const LOCAL_THETA = 10000;
const GLOBAL_HEAD_DIM = 512;
const WINDOW = 512;
/** Every sixth layer sees all tokens, the others a window. */
const PATTERN = 6;
const ROTATED_SHARE = 0.25;
const SOFT_CAPS = { attention: null, logits: null };
const NONE = { min: 0, max: LIMITS.hidden.max };
/** The text model by itself, and with what sees and hears. */
export const BASES = ['model.language_model.', 'model.', 'language_model.model.', ''];

/** Gemma 4 12B's. */
const UNIFIED = ['gemma4_unified', 'gemma4_unified_text'] as const;

/** GGUF's name of the number of layers that read others' keys. */
export const GGUF_SHARING = { num_kv_shared_layers: 'attention.shared_kv_layers' };

/** Facts that both formats state of layers. */
export interface Layers {
  readonly sliding: readonly boolean[];
  readonly window: number;
  readonly headDims: { readonly sliding: number; readonly full: number };
  readonly kvHeads: readonly number[];
  /** Layers, the last ones, that read the keys and values of the last layer of their kind that has some. */
  readonly sharing: number;
  readonly valuesAreKeys: (layer: number) => boolean;
  readonly innerSizes: readonly number[];
}

/**
 * Gemma 4, the language model: heads that are larger in layers which see all tokens, keys and values that several
 * layers share, embeddings for each layer; or a mixture of experts beside each layer's block.
 */
export const gemma4: Family = {
  modelTypes: ['gemma4_text', 'gemma4', ...UNIFIED],
  fromConfig(outer: Fields): Description {
    const config = withClassDefaults(outer.child('text_config') ?? outer);
    refuseOthers(config);
    const sizes = readSizes(config, DEFAULTS);
    const { layers: count, headDim, kvHeads, feedForwardSize } = sizes;
    const sharing = config.integer('num_kv_shared_layers', { min: 0, max: count }, 0);
    const wide = config.boolean('use_double_wide_mlp', false);
    const sliding = slidingLayers(config, count, (layer) => (layer + 1) % PATTERN !== 0);
    sliding[count - 1] = false;
    const equal = config.boolean('attention_k_eq_v', false);
    const own = ownSizes(config, count);
    const globalDim = own?.headDim ?? config.integer('global_head_dim', LIMITS.headDim, GLOBAL_HEAD_DIM);
    const globalHeads =
      own?.kvHeads ??
      (equal ? config.integerOrNull('num_global_key_value_heads', LIMITS.heads, null) : null) ??
      kvHeads;
    const layers: Layers = {
      sliding,
      window: config.integer('sliding_window', LIMITS.window, WINDOW),
      headDims: { sliding: headDim, full: globalDim },
      kvHeads: sliding.map((slides) => (slides ? kvHeads : globalHeads)),
      sharing,
      valuesAreKeys: (layer) => equal && sliding[layer] === false,
      innerSizes: sliding.map((_, layer) => (wide && layer >= count - sharing ? 2 : 1) * feedForwardSize),
    };
    const experts = config.boolean('enable_moe_block', false)
      ? {
          count: config.integer('num_experts', LIMITS.experts),
          perToken: config.integer('top_k_experts', LIMITS.experts),
          width: config.integer('moe_intermediate_size', LIMITS.feedForward),
        }
      : undefined;
    if (experts && wide && sharing > 0) config.refuse('use_double_wide_mlp', 'false beside experts');
    const decoder = describe(
      config,
      {
        ...sizes,
        norm: { kind: 'rms', epsilon: config.number('rms_norm_eps', LIMITS.epsilon, DEFAULTS.epsilon) },
        position: rotary('halves', Math.max(headDim, globalDim), ...configTables(config, layers, sizes.contextTokens)),
        feedForward: { kind: 'gated', activation: activation(config, 'hidden_activation', 'gelu_pytorch_tanh') },
      },
      layers,
      config.integerOrNull('hidden_size_per_layer_input', NONE, 256) ?? 0,
      experts,
    );
    const tied = outer.boolean('tie_word_embeddings', config.boolean('tie_word_embeddings', true));
    return { decoder, bases: BASES, weights: gemma4Weights(decoder, tied) };
  },
  gguf: { architecture: 'gemma4', describe: describeGguf },
};

/** Its class has no embeddings for each layer, and another window. */
function withClassDefaults(config: Fields): Fields {
  const unified = UNIFIED.some((type) => type === config.raw('model_type'));
  return unified ? config.withDefaults({ sliding_window: 1024, hidden_size_per_layer_input: 0 }) : config;
}

type Base = Pick<
  DecoderSpec,
  | 'layers'
  | 'hiddenSize'
  | 'vocabularySize'
  | 'contextTokens'
  | 'heads'
  | 'kvHeads'
  | 'headDim'
  | 'feedForwardSize'
  | 'norm'
  | 'position'
  | 'feedForward'
>;

function describe(
  fields: Fields,
  base: Base,
  layers: Layers,
  layerInputs: number,
  experts: { readonly count: number; readonly perToken: number; readonly width: number } | undefined,
): DecoderSpec {
  const { hiddenSize, feedForwardSize } = base;
  const headDim = Math.max(layers.headDims.sliding, layers.headDims.full);
  const { logits } = softCaps(fields, SOFT_CAPS);
  return {
    family: 'gemma4',
    ...base,
    headDim,
    residual: 'sandwich',
    finalNorm: true,
    embedding: { size: hiddenSize, scale: Math.fround(Math.sqrt(hiddenSize)) },
    attention: { scale: 1, qkNorm: 'head', valueNorm: true },
    layerScale: true,
    ...(layerInputs > 0 && { layerInputs }),
    ...(logits !== null && logits > 0 && { logitSoftCap: logits }),
    layerSpecs: layerSpecs(fields, layers, headDim, base.kvHeads, experts ? undefined : feedForwardSize),
    ...(experts && {
      feedForwardSize: experts.width,
      feedForward: {
        ...base.feedForward,
        kind: 'experts',
        experts: {
          count: experts.count,
          perToken: experts.perToken,
          router: {
            score: 'softmax',
            normalised: true,
            scale: 1,
            choiceBias: false,
            logitScale: Math.fround(hiddenSize ** -0.5),
            expertScale: true,
          },
          shared: { size: feedForwardSize, gate: false, apart: true },
        },
      },
    }),
  };
}

/** @param innerSize of the decoder; undefined where all layers have it */
export function layerSpecs(
  fields: Fields,
  { sliding, window, headDims, kvHeads, sharing, valuesAreKeys, innerSizes }: Layers,
  headDim: number,
  decoderKvHeads: number,
  innerSize: number | undefined,
): LayerSpec[] {
  const owners = sliding.length - sharing;
  return sliding.map((slides, layer): LayerSpec => {
    const dim = slides ? headDims.sliding : headDims.full;
    const heads = kvHeads[layer] ?? decoderKvHeads;
    const keysOf = layer < owners ? undefined : sliding.slice(0, owners).lastIndexOf(slides);
    if (keysOf === -1) fields.refuse('num_kv_shared_layers', 'fewer, so that a layer of each kind has keys', sharing);
    const inner = innerSizes[layer];
    return {
      window: slides ? window : 0,
      rotaryTable: slides ? 1 : 0,
      ...(dim !== headDim && { headDim: dim }),
      ...(heads !== decoderKvHeads && { kvHeads: heads }),
      ...(keysOf !== undefined && { keysOf }),
      ...(keysOf === undefined && valuesAreKeys(layer) && { valuesAreKeys: true }),
      ...(innerSize !== undefined && inner !== innerSize && { innerSize: inner }),
    };
  });
}

function refuseOthers(config: Fields): void {
  const attends = config.raw('use_bidirectional_attention') ?? null;
  if (attends !== null && attends !== false && attends !== 'vision')
    config.refuse('use_bidirectional_attention', 'null or vision: only causal models generate', attends);
  if (config.boolean('attention_bias', false)) config.refuse('attention_bias', 'false');
  const inputs = config.integerOrNull('hidden_size_per_layer_input', NONE, 256) ?? 0;
  const vocabulary = config.integer('vocab_size', LIMITS.vocabulary, DEFAULTS.vocabulary);
  const perLayer = config.integer('vocab_size_per_layer_input', LIMITS.vocabulary, DEFAULTS.vocabulary);
  if (inputs > 0 && perLayer !== vocabulary)
    config.refuse('vocab_size_per_layer_input', `vocab_size, ${vocabulary}`, perLayer);
}

/** Sizes of layers that see all tokens as transformers 5 lists them, layer by layer; undefined where it does not. */
function ownSizes(config: Fields, layers: number): { headDim?: number; kvHeads?: number } | undefined {
  const listed = config.child('per_layer_config');
  if (listed === undefined) return undefined;
  const found = Array.from({ length: layers }, (_, layer) => listed.child(String(layer))).filter(
    (each) => each !== undefined,
  );
  const headDims = new Set(found.map((each) => each.integerOrNull('head_dim', LIMITS.headDim, null)));
  const kvHeads = new Set(found.map((each) => each.integerOrNull('num_key_value_heads', LIMITS.heads, null)));
  if (headDims.size > 1 || kvHeads.size > 1)
    config.refuse('per_layer_config', 'the same sizes in all layers that it lists');
  const [headDim] = [...headDims];
  const [heads] = [...kvHeads];
  return { ...(headDim && { headDim }), ...(heads && { kvHeads: heads }) };
}

function configTables(config: Fields, { headDims }: Layers, contextTokens: number): DecoderTables {
  const none = Fields.ofObject(config.file, {}, 'rope_parameters');
  const parameters = config.child('rope_parameters');
  const full = parameters?.child('full_attention') ?? none;
  const sliding = parameters?.child('sliding_attention') ?? none;
  const theta = rotaryTheta(full, config, 'rope_theta', DEFAULTS.theta);
  const proportional = full.string('rope_type', 'proportional') === 'proportional';
  const share = full.number('partial_rotary_factor', { min: 0, max: 1 }, ROTATED_SHARE);
  return [
    proportional
      ? { frequencies: proportionalFrequencies(theta, headDims.full, share), scale: 1 }
      : configuredRotary(full, { dims: headDims.full, theta, contextTokens }).table,
    configuredRotary(sliding, {
      dims: headDims.sliding,
      theta: rotaryTheta(sliding, config, 'rope_local_base_freq', LOCAL_THETA),
      contextTokens,
    }).table,
  ];
}
type DecoderTables = readonly { readonly frequencies: Float32Array; readonly scale: number }[];

function describeGguf(model: GgufModel): Description {
  const { fields, tensors } = model;
  const count = fields.integer('block_count', LIMITS.layers);
  const hiddenSize = fields.integer('embedding_length', LIMITS.hidden);
  const full = fields.integer('attention.key_length', LIMITS.headDim, GLOBAL_HEAD_DIM);
  const slides = fields.integer('attention.key_length_swa', LIMITS.headDim, full);
  const window = fields.integer('attention.sliding_window', { min: 0, max: LIMITS.window.max }, WINDOW);
  const sliding = ggufSlidingLayers(fields, count, window, PATTERN);
  const kvHeads = fields.integers('attention.head_count_kv', count, LIMITS.heads);
  const innerSizes = fields.integers('feed_forward_length', count, LIMITS.feedForward);
  const contextTokens = fields.integer('context_length', LIMITS.context);
  const sharing = fields.integer('attention.shared_kv_layers', { min: 0, max: count }, 0);
  const localTheta = fields.number('rope.freq_base_swa', LIMITS.theta, LOCAL_THETA);
  const layers: Layers = {
    sliding,
    window,
    headDims: { sliding: slides, full },
    kvHeads,
    sharing,
    valuesAreKeys: (layer) => !tensors.has(`blk.${layer}.attn_v.weight`),
    innerSizes,
  };
  const experts = fields.integer('expert_count', { min: 0, max: LIMITS.experts.max }, 0);
  const decoder = describe(
    fields.renamed(GGUF_SHARING),
    {
      layers: count,
      hiddenSize,
      vocabularySize: Math.min(
        Math.max(tensors.find('token_embd.weight')?.shape[0] ?? fields.integer('vocab_size', LIMITS.vocabulary), 1),
        LIMITS.vocabulary.max,
      ),
      contextTokens,
      heads: fields.uniformInteger('attention.head_count', LIMITS.heads),
      kvHeads: kvHeads[0] ?? 1,
      headDim: Math.max(full, slides),
      feedForwardSize: innerSizes[0] ?? 1,
      norm: { kind: 'rms', epsilon: fields.number('attention.layer_norm_rms_epsilon', LIMITS.epsilon) },
      position: rotary('halves', Math.max(full, slides), ggufRotary(model, full, contextTokens).table, {
        frequencies: defaultFrequencies(localTheta, slides),
        scale: 1,
      }),
      feedForward: { kind: 'gated', activation: 'gelu-tanh' },
    },
    layers,
    fields.integer('embedding_length_per_layer_input', NONE, 0),
    experts === 0
      ? undefined
      : {
          count: experts,
          perToken: fields.integer('expert_used_count', LIMITS.experts),
          width: fields.uniformInteger('expert_feed_forward_length', LIMITS.feedForward),
        },
  );
  skipSharedKeys(model, count - sharing);
  return { decoder, weights: gemma4GgufWeights(decoder, model) };
}

/** Layers that read others' keys may have their own in the file, which nobody uses. */
export function skipSharedKeys({ tensors }: GgufModel, owners: number): void {
  for (const name of tensors.unused()) {
    const [, layer] = /^blk\.(\d+)\.attn_(?:k|v|k_norm)\.weight$/.exec(name) ?? [];
    if (layer !== undefined && Number(layer) >= owners) tensors.take(name);
  }
}
