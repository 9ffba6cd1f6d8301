import type { DecoderSpec } from '../DecoderSpec.js';
import type { Description, WeightSource } from './Family.js';
import { LIMITS, type Fields } from './Fields.js';
import { gatedFeedForwardWeights, LLAMA_LAYER, normsLessOne } from './gatedDecoder.js';
import { GGUF_GATED, GGUF_LAYER, ggufAttention, ggufGlobals, head, weights } from './weights.js';

/**
 * The traits that Gemma 2 and 3 share: norms round both branches, scaled embeddings, soft caps, norms stored less 1.
 */

/** Values of transformers' configuration class for keys that a config.json leaves out. null: no cap. */
export interface SoftCaps {
  readonly attention: number | null;
  readonly logits: number | null;
}

/** Soft caps as the configuration has them, under the same names in config.json and in GGUF. */
export function softCaps(fields: Fields, defaults: SoftCaps): SoftCaps {
  const cap = (key: string, fallback: number | null): number | null =>
    fields.has(key) ? fields.numberOrNull(key, LIMITS.softCap) : fallback;
  return {
    attention: cap('attn_logit_softcapping', defaults.attention),
    logits: cap('final_logit_softcapping', defaults.logits),
  };
}

/** Embedding models are made of these, too. */
export function checkCausal(config: Fields): void {
  if (config.boolean('use_bidirectional_attention', false))
    config.refuse('use_bidirectional_attention', 'false: only causal models generate');
}

/** The same as an encoder, as embedding models are made of it: all tokens see all others, and nothing is generated. */
export function bothWays({ decoder, weights: own, ...rest }: Description): Description {
  const { logitSoftCap: _cap, ...others } = decoder;
  return {
    ...rest,
    decoder: { ...others, attention: { ...others.attention, causal: false } },
    weights: own.filter(({ role }) => role !== 'head.weight'),
  };
}

/** A window that says how many tokens are seen, half of them before a token and half after it, and the token. */
export function windowBothWays(tokens: number): number {
  return Math.floor(tokens / 2) + 1;
}

/** `scale`: the factor on query · key. */
export function sandwich(decoder: DecoderSpec, scale: number, { attention, logits }: SoftCaps): DecoderSpec {
  return {
    ...decoder,
    residual: 'sandwich',
    embedding: { size: decoder.hiddenSize, scale: Math.fround(Math.sqrt(decoder.hiddenSize)) },
    attention: { ...decoder.attention, scale, ...(attention !== null && attention > 0 && { softCap: attention }) },
    ...(logits !== null && logits > 0 && { logitSoftCap: logits }),
  };
}

/** query_pre_attn_scalar, by which scores are divided (its root). */
export function queryScale(config: Fields): number {
  return config.number('query_pre_attn_scalar', { min: 1e-6, max: 1e6 }, 256) ** -0.5;
}

/** The same in GGUF, whose formats have no key for it: llama.cpp knows the one size that differs by its layers. */
export function ggufQueryScale(fields: Fields, decoder: DecoderSpec, layersOfTheOther: number): number {
  const { layers, hiddenSize, heads, headDim } = decoder;
  const scalar = layers === layersOfTheOther ? hiddenSize / heads : headDim;
  return fields.number('attention.scale', { min: 1e-6, max: 1e3 }, scalar ** -0.5);
}

export function sandwichWeights(tied: boolean, biased: boolean): WeightSource[] {
  const biases = biased ? (['q', 'k', 'v', 'o'] as const) : [];
  return [
    ...weights('{base}', { token_embedding: 'embed_tokens.weight' }),
    head('lm_head.weight', tied),
    ...normsLessOne({
      'norm1.weight': 'input_layernorm.weight',
      'post_norm1.weight': 'post_attention_layernorm.weight',
      'norm2.weight': 'pre_feedforward_layernorm.weight',
      'post_norm2.weight': 'post_feedforward_layernorm.weight',
    }),
    ...(['q', 'k', 'v', 'o'] as const).flatMap((role) =>
      weights(LLAMA_LAYER, { [`${role}.weight`]: `self_attn.${role}_proj.weight` }),
    ),
    ...biases.flatMap((role) => weights(LLAMA_LAYER, { [`${role}.bias`]: `self_attn.${role}_proj.bias` })),
    ...gatedFeedForwardWeights(),
  ];
}

/** llama.cpp's format: the norms hold weight + 1 already. */
export function sandwichGgufWeights(): WeightSource[] {
  return [
    ...ggufGlobals(),
    ...ggufAttention(),
    ...weights(GGUF_LAYER, {
      'norm1.weight': 'attn_norm.weight',
      'post_norm1.weight': 'post_attention_norm.weight',
      'norm2.weight': 'ffn_norm.weight',
      'post_norm2.weight': 'post_ffw_norm.weight',
      ...GGUF_GATED,
    }),
  ];
}
