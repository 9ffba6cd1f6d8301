import type { DecoderSpec, LatentSpec } from '../DecoderSpec.js';
import { configuredRotary, rotaryFields, rotaryTheta } from './configRotary.js';
import type { FusedPart, GgufModel, WeightSource } from './Family.js';
import { LIMITS, type Fields } from './Fields.js';
import { LLAMA_LAYER, readSizes, type GatedDefaults } from './gatedDecoder.js';
import { ggufRotary } from './ggufRotary.js';
import { yarnMagnitude } from './rotaryFrequencies.js';
import { activation, rotary, sameLayers } from './specs.js';
import { GGUF_LAYER, head, weights } from './weights.js';

/** Values of transformers' configuration class. null: as Python's None. */
export interface LatentDefaults extends Omit<GatedDefaults, 'kvHeads' | 'headDim'> {
  readonly rank: number;
  readonly queryRank: number | null;
  readonly rotated: number;
  readonly plain: number;
  readonly value: number;
}

/** Epsilon of the norms of latent rows, whatever the configuration says of others. */
const EPSILON = 1e-6;
const NONE = { min: 0, max: LIMITS.hidden.max };

/** LLaMA's shape with latent attention, as DeepSeek V2 made it: gated blocks, and what is rotated apart. */
export function latentConfig(
  family: string,
  config: Fields,
  defaults: LatentDefaults,
  style: 'pairs' | 'halves' = config.boolean('rope_interleave', true) ? 'pairs' : 'halves',
): DecoderSpec {
  const rotated = config.integer('qk_rope_head_dim', LIMITS.headDim, defaults.rotated);
  const sizes = readSizes(config.with({ head_dim: rotated }), { ...defaults, kvHeads: null, headDim: rotated });
  const { heads } = sizes;
  if (sizes.kvHeads !== heads) config.refuse('num_key_value_heads', `the ${heads} heads, or none`, sizes.kvHeads);
  const latent: LatentSpec = {
    rank: config.integer('kv_lora_rank', LIMITS.hidden, defaults.rank),
    queryRank: config.integerOrNull('q_lora_rank', NONE, defaults.queryRank) ?? 0,
    rotated,
    plain: config.integer('qk_nope_head_dim', LIMITS.headDim, defaults.plain),
    value: config.integerOrNull('v_head_dim', LIMITS.headDim, defaults.value) ?? defaults.value,
    epsilon: EPSILON,
  };
  checkLatent(config, latent, ['kv_lora_rank', 'v_head_dim', 'qk_rope_head_dim']);
  const settings = rotaryFields(config);
  const { table, contextTokens } = configuredRotary(settings, {
    dims: rotated,
    theta: rotaryTheta(settings, config, 'rope_theta', defaults.theta),
    contextTokens: sizes.contextTokens,
  });
  return {
    family,
    ...sizes,
    kvHeads: 1,
    headDim: latent.rank + rotated,
    contextTokens,
    norm: { kind: 'rms', epsilon: config.number('rms_norm_eps', LIMITS.epsilon, defaults.epsilon) },
    residual: 'pre',
    finalNorm: true,
    embedding: { size: sizes.hiddenSize, scale: 1 },
    attention: { scale: latentScale(settings, latent), qkNorm: 'none', latent },
    position: rotary(style, rotated, table),
    feedForward: { kind: 'gated', activation: activation(config, 'hidden_act', 'silu') },
    layerSpecs: sameLayers(sizes.layers),
  };
}

/** Sizes that rows, and what is made of them, must have to be computed with. */
function checkLatent(
  fields: Fields,
  { rank, value, rotated }: LatentSpec,
  keys: readonly [string, string, string],
): void {
  if (rank % 16 !== 0 || rank + rotated > LIMITS.latent.max)
    fields.refuse(keys[0], `a multiple of 16, with what is rotated at most ${LIMITS.latent.max}`, rank);
  if (value % 16 !== 0) fields.refuse(keys[1], 'a multiple of 16', value);
  if (rotated % 2 !== 0) fields.refuse(keys[2], 'an even number', rotated);
}

/** Gives the scale of scores; YaRN's magnitude is counted here, and not where queries and keys are rotated. */
function latentScale(settings: Fields, { plain, rotated }: LatentSpec): number {
  const scale = (plain + rotated) ** -0.5;
  const type = settings.string(settings.has('rope_type') ? 'rope_type' : 'type', 'default');
  const all = settings.numberOrNull('mscale_all_dim', { min: 0, max: 1e3 }) ?? 0;
  if (type === 'default' || all === 0) return scale;
  return scale * yarnMagnitude(settings.number('factor', LIMITS.factor), all) ** 2;
}

/** Embeddings, norms and latent attention, as DeepSeek's checkpoints name them. */
export function latentWeights(decoder: DecoderSpec, tied: boolean, biased: boolean): WeightSource[] {
  const { queryRank = 0, plain = 0, value = 0 } = decoder.attention.latent ?? {};
  const up = (index: number): FusedPart => ({ groups: decoder.heads, sizes: [plain, value], index });
  const tensor = `${LLAMA_LAYER}self_attn.kv_b_proj.weight`;
  return [
    ...weights('{base}', { token_embedding: 'embed_tokens.weight', 'final_norm.weight': 'norm.weight' }),
    head('lm_head.weight', tied),
    ...weights(LLAMA_LAYER, {
      'norm1.weight': 'input_layernorm.weight',
      'norm2.weight': 'post_attention_layernorm.weight',
      ...(queryRank > 0
        ? {
            'q_down.weight': 'self_attn.q_a_proj.weight',
            'q_down_norm.weight': 'self_attn.q_a_layernorm.weight',
            'q.weight': 'self_attn.q_b_proj.weight',
          }
        : { 'q.weight': 'self_attn.q_proj.weight' }),
      'latent.weight': 'self_attn.kv_a_proj_with_mqa.weight',
      'latent_norm.weight': 'self_attn.kv_a_layernorm.weight',
      'o.weight': 'self_attn.o_proj.weight',
      ...(biased && {
        ...(queryRank > 0 && { 'q_down.bias': 'self_attn.q_a_proj.bias' }),
        'latent.bias': 'self_attn.kv_a_proj_with_mqa.bias',
        'o.bias': 'self_attn.o_proj.bias',
      }),
    }),
    { role: 'k_up.weight', tensor, part: up(0), turnedBlocks: true },
    { role: 'v_up.weight', tensor, part: up(1) },
  ];
}

/** `latentConfig` from GGUF metadata: of files whose keys' and values' products are apart. */
export function latentGguf(family: string, model: GgufModel, style: 'pairs' | 'halves'): DecoderSpec {
  const { fields, tensors } = model;
  const hiddenSize = fields.integer('embedding_length', LIMITS.hidden);
  const rotated = fields.integer('rope.dimension_count', LIMITS.headDim);
  const absorbed = fields.has('attention.key_length_mla');
  const keyLength = fields.integer(absorbed ? 'attention.key_length_mla' : 'attention.key_length', LIMITS.headDim);
  if (keyLength <= rotated) fields.refuse('attention.key_length', `more than the ${rotated} elements that are rotated`);
  const latent: LatentSpec = {
    rank: fields.integer('attention.kv_lora_rank', LIMITS.hidden),
    queryRank: fields.integer('attention.q_lora_rank', NONE, 0),
    rotated,
    plain: keyLength - rotated,
    value: fields.integer(absorbed ? 'attention.value_length_mla' : 'attention.value_length', LIMITS.headDim),
    epsilon: fields.number('attention.layer_norm_rms_epsilon', LIMITS.epsilon),
  };
  checkLatent(fields, latent, ['attention.kv_lora_rank', 'attention.value_length', 'rope.dimension_count']);
  const layers = fields.integer('block_count', LIMITS.layers);
  const context = fields.integer('context_length', LIMITS.context);
  const multiplier = fields.number('rope.scaling.yarn_log_multiplier', { min: 0, max: 1e3 }, 0);
  const { table, contextTokens } = ggufRotary(model, rotated, context);
  const factor = fields.number('rope.scaling.factor', { min: 0, max: LIMITS.factor.max }, 1);
  const magnitude = multiplier > 0 && factor > 1 ? 1 + multiplier * Math.log(factor) : 1;
  return {
    family,
    layers,
    hiddenSize,
    vocabularySize: Math.min(
      Math.max(tensors.find('token_embd.weight')?.shape[0] ?? fields.integer('vocab_size', LIMITS.vocabulary), 1),
      LIMITS.vocabulary.max,
    ),
    contextTokens,
    heads: fields.uniformInteger('attention.head_count', LIMITS.heads),
    kvHeads: 1,
    headDim: latent.rank + rotated,
    feedForwardSize: fields.uniformInteger('feed_forward_length', LIMITS.feedForward),
    norm: { kind: 'rms', epsilon: latent.epsilon },
    residual: 'pre',
    finalNorm: true,
    embedding: { size: hiddenSize, scale: 1 },
    attention: { scale: (latent.plain + rotated) ** -0.5 * magnitude ** 2, qkNorm: 'none', latent },
    // What YaRN sharpens is in the scale already.
    position: rotary(style, rotated, multiplier > 0 ? { ...table, scale: 1 } : table),
    feedForward: { kind: 'gated', activation: 'silu' },
    layerSpecs: sameLayers(layers),
  };
}

/** Norms and latent attention in GGUF. Older files have one product of keys and values, of floats alone. */
export function latentGgufWeights(decoder: DecoderSpec, { tensors }: GgufModel): WeightSource[] {
  const { queryRank = 0, plain = 0, value = 0 } = decoder.attention.latent ?? {};
  const first = decoder.layerSpecs.findIndex(({ mixer = 'attention' }) => mixer === 'attention');
  const apart = tensors.has(`blk.${first}.attn_k_b.weight`);
  const up = (index: number): FusedPart => ({ groups: decoder.heads, sizes: [plain, value], index });
  const tensor = `${GGUF_LAYER}attn_kv_b.weight`;
  return [
    ...weights('', { token_embedding: 'token_embd.weight', 'final_norm.weight': 'output_norm.weight' }),
    head('output.weight', true),
    ...weights(GGUF_LAYER, {
      'norm1.weight': 'attn_norm.weight',
      'norm2.weight': 'ffn_norm.weight',
      ...(queryRank > 0
        ? {
            'q_down.weight': 'attn_q_a.weight',
            'q_down_norm.weight': 'attn_q_a_norm.weight',
            'q.weight': 'attn_q_b.weight',
          }
        : { 'q.weight': 'attn_q.weight' }),
      'latent.weight': 'attn_kv_a_mqa.weight',
      'latent_norm.weight': 'attn_kv_a_norm.weight',
      'o.weight': 'attn_output.weight',
    }),
    ...(apart
      ? weights(GGUF_LAYER, { 'k_up.weight': 'attn_k_b.weight', 'v_up.weight': 'attn_v_b.weight' }, { reshaped: true })
      : [
          { role: 'k_up.weight' as const, tensor, part: up(0), turnedBlocks: true },
          { role: 'v_up.weight' as const, tensor, part: up(1) },
        ]),
  ];
}
