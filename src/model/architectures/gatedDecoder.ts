import type { DecoderSpec } from '../DecoderSpec.js';
import type { LayerRole } from './weightRoles.js';
import { partialRotary, wholeHeadRotary } from './configRotary.js';
import type { GgufModel, WeightSource } from './Family.js';
import { LIMITS, type Fields } from './Fields.js';
import { ggufRotary } from './ggufRotary.js';
import { activation, dividedHeadDim, rotary, sameLayers } from './specs.js';
import { head, weights, type Names } from './weights.js';

/** Values of transformers' configuration class for keys that a config.json leaves out. null: as Python's None. */
export interface GatedDefaults {
  readonly vocabulary: number;
  readonly hidden: number;
  readonly feedForward: number;
  readonly layers: number;
  readonly heads: number;
  /** null: as many as heads. */
  readonly kvHeads: number | null;
  /** null: hidden size / heads. */
  readonly headDim: number | null;
  readonly context: number;
  readonly epsilon: number;
  readonly theta: number;
}

type Sizes = Pick<
  DecoderSpec,
  'layers' | 'hiddenSize' | 'vocabularySize' | 'contextTokens' | 'heads' | 'kvHeads' | 'headDim' | 'feedForwardSize'
>;

/** Sizes that every transformers configuration of this kind calls alike. */
export function readSizes(config: Fields, defaults: GatedDefaults): Sizes {
  const hiddenSize = config.integer('hidden_size', LIMITS.hidden, defaults.hidden);
  const heads = config.integer('num_attention_heads', LIMITS.heads, defaults.heads);
  return {
    layers: config.integer('num_hidden_layers', LIMITS.layers, defaults.layers),
    hiddenSize,
    vocabularySize: config.integer('vocab_size', LIMITS.vocabulary, defaults.vocabulary),
    contextTokens: config.integer('max_position_embeddings', LIMITS.context, defaults.context),
    heads,
    kvHeads: config.integerOrNull('num_key_value_heads', LIMITS.heads, defaults.kvHeads) ?? heads,
    headDim:
      config.integerOrNull('head_dim', LIMITS.headDim, defaults.headDim) ?? dividedHeadDim(config, hiddenSize, heads),
    feedForwardSize: config.integer('intermediate_size', LIMITS.feedForward, defaults.feedForward),
  };
}

/** How a family's norms and rotation differ from LLaMA's. */
export interface GatedStyle {
  /** Default: RMS norms, whose epsilon is called `rms_norm_eps`. */
  readonly norm?: { readonly kind: 'rms' | 'layer'; readonly epsilon: string };
  /** Default: whole heads, in halves. */
  readonly rotary?: { readonly style: 'pairs' | 'halves'; readonly share?: number };
}

/** The shape that LLaMA made common: RMS norms before both branches, rotary positions, a gated feed-forward block. */
export function gatedConfig(
  family: string,
  config: Fields,
  defaults: GatedDefaults,
  { norm = { kind: 'rms', epsilon: 'rms_norm_eps' }, rotary: turned = { style: 'halves' } }: GatedStyle = {},
): DecoderSpec {
  const sizes = readSizes(config, defaults);
  const { table, contextTokens, dims } =
    turned.share === undefined
      ? { ...wholeHeadRotary(config, sizes.headDim, sizes.contextTokens, defaults.theta), dims: sizes.headDim }
      : partialRotary(config, sizes, defaults.theta, turned.share);
  return {
    family,
    ...sizes,
    contextTokens,
    norm: { kind: norm.kind, epsilon: config.number(norm.epsilon, LIMITS.epsilon, defaults.epsilon) },
    residual: 'pre',
    finalNorm: true,
    embedding: { size: sizes.hiddenSize, scale: 1 },
    attention: { scale: sizes.headDim ** -0.5, qkNorm: 'none' },
    position: rotary(turned.style, dims, table),
    feedForward: { kind: 'gated', activation: activation(config, 'hidden_act', 'silu') },
    layerSpecs: sameLayers(sizes.layers),
  };
}

export const LLAMA_LAYER = '{base}layers.{layer}.';
/** LLaMA checkpoints with and without the prefix of the base model. */
export const LLAMA_BASES = ['model.', ''];

/** The norms before both branches, by the names that LLaMA's files have for them. */
export const PRE_NORMS = {
  'norm1.weight': 'input_layernorm.weight',
  'norm2.weight': 'post_attention_layernorm.weight',
} as const;

/** Norms that are stored less 1: the final one, and those of layers. */
export function normsLessOne(layer: Names<LayerRole>): WeightSource[] {
  return [
    ...weights('{base}', { 'final_norm.weight': 'norm.weight' }, { add: 1 }),
    ...weights(LLAMA_LAYER, layer, { add: 1 }),
  ];
}

/** Tensor names that LLaMA's successors kept, but for the feed-forward block. */
export function gatedAttentionWeights(tied: boolean, biases: readonly ('q' | 'k' | 'v' | 'o')[] = []): WeightSource[] {
  return [
    ...weights('{base}', { token_embedding: 'embed_tokens.weight', 'final_norm.weight': 'norm.weight' }),
    head('lm_head.weight', tied),
    ...weights(LLAMA_LAYER, {
      ...PRE_NORMS,
      'q.weight': 'self_attn.q_proj.weight',
      'k.weight': 'self_attn.k_proj.weight',
      'v.weight': 'self_attn.v_proj.weight',
      'o.weight': 'self_attn.o_proj.weight',
    }),
    ...biases.flatMap((role) => weights(LLAMA_LAYER, { [`${role}.bias`]: `self_attn.${role}_proj.bias` })),
  ];
}

export function gatedFeedForwardWeights(biased = false): WeightSource[] {
  return (['gate', 'up', 'down'] as const).flatMap((role) =>
    weights(LLAMA_LAYER, {
      [`${role}.weight`]: `mlp.${role}_proj.weight`,
      ...(biased && { [`${role}.bias`]: `mlp.${role}_proj.bias` }),
    }),
  );
}

/** The facts that families of recurrent layers, among ones that attend without positions, have in common. */
export function unpositionedDecoder(family: string, sizes: Sizes, epsilon: number): Omit<DecoderSpec, 'layerSpecs'> {
  return {
    family,
    ...sizes,
    norm: { kind: 'rms', epsilon },
    residual: 'pre',
    finalNorm: true,
    embedding: { size: sizes.hiddenSize, scale: 1 },
    attention: { scale: sizes.headDim ** -0.5, qkNorm: 'none' },
    position: { kind: 'none' },
    feedForward: { kind: 'gated', activation: 'silu' },
  };
}

/** Sizes that every GGUF architecture calls alike. */
export function readGgufSizes({ fields, tensors }: GgufModel): Sizes {
  const hiddenSize = fields.integer('embedding_length', LIMITS.hidden);
  const heads = fields.uniformInteger('attention.head_count', LIMITS.heads);
  const headDim = fields.has('attention.key_length')
    ? fields.integer('attention.key_length', LIMITS.headDim)
    : dividedHeadDim(fields, hiddenSize, heads, 'attention.head_count');
  if (fields.integer('attention.value_length', LIMITS.headDim, headDim) !== headDim)
    fields.refuse('attention.value_length', `the key length, ${headDim}`);
  const embeddings = tensors.find('token_embd.weight')?.shape[0];
  return {
    layers: fields.integer('block_count', LIMITS.layers),
    hiddenSize,
    // The embeddings decide: vocab_size is missing from many files, and rows beyond the tokenizer's are harmless.
    vocabularySize: Math.min(
      Math.max(embeddings ?? fields.integer('vocab_size', LIMITS.vocabulary), 1),
      LIMITS.vocabulary.max,
    ),
    contextTokens: fields.integer('context_length', LIMITS.context),
    heads,
    kvHeads: fields.uniformInteger('attention.head_count_kv', LIMITS.heads, heads),
    headDim,
    // Files of mixtures without another block may have the experts' width alone.
    feedForwardSize: fields.uniformInteger(
      fields.has('feed_forward_length') || !fields.has('expert_feed_forward_length')
        ? 'feed_forward_length'
        : 'expert_feed_forward_length',
      LIMITS.feedForward,
    ),
  };
}

/** `gatedConfig` from GGUF metadata. */
export function gatedGguf(
  family: string,
  model: GgufModel,
  style: 'pairs' | 'halves',
  { truncate, norm = 'rms' }: { readonly truncate?: boolean; readonly norm?: 'rms' | 'layer' } = {},
): DecoderSpec {
  const sizes = readGgufSizes(model);
  const dims = model.fields.integer('rope.dimension_count', LIMITS.headDim, sizes.headDim);
  const { table, contextTokens } = ggufRotary(model, dims, sizes.contextTokens, truncate);
  return {
    family,
    ...sizes,
    contextTokens,
    norm: {
      kind: norm,
      epsilon: model.fields.number(`attention.layer_norm_${norm === 'rms' ? 'rms_' : ''}epsilon`, LIMITS.epsilon),
    },
    residual: 'pre',
    finalNorm: true,
    embedding: { size: sizes.hiddenSize, scale: 1 },
    attention: { scale: sizes.headDim ** -0.5, qkNorm: 'none' },
    position: rotary(style, dims, table),
    feedForward: { kind: 'gated', activation: 'silu' },
    layerSpecs: sameLayers(sizes.layers),
  };
}
