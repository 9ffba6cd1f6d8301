import type { DecoderSpec } from '../DecoderSpec.js';
import { configuredRotary, rotaryFields, rotaryTheta } from './configRotary.js';
import type { GgufModel, WeightSource } from './Family.js';
import { LIMITS, type Fields } from './Fields.js';
import { gatedGguf, LLAMA_LAYER, normsLessOne, PRE_NORMS, readSizes, type GatedDefaults } from './gatedDecoder.js';
import { layersByMixer, mixedLayers } from './mixers.js';
import { skipNextTokenLayers } from './nextTokenLayers.js';
import { activation, requireFalse, requireSilu, rotary } from './specs.js';
import { GGUF_LAYER, ggufGlobals, head, weights } from './weights.js';

const ROTATED_SHARE = 0.25;
/** Every so-manieth layer attends. */
const INTERVAL = 4;
const TAPS = { min: 1, max: 64 };

/**
 * Qwen 3.5's and Qwen3-Next's decoder: most layers remember a state by the gated delta rule (Gated DeltaNet), the
 * others gate what attention gives.
 */
export function gatedDeltaConfig(family: string, config: Fields, defaults: GatedDefaults): DecoderSpec {
  const sizes = readSizes(config, defaults);
  const { headDim, layers, hiddenSize } = sizes;
  const settings = rotaryFields(config);
  const share = { min: 0, max: 1 };
  const rotated =
    settings.numberOrNull('partial_rotary_factor', share) ??
    config.numberOrNull('partial_rotary_factor', share) ??
    ROTATED_SHARE;
  const dims = Math.floor(headDim * rotated);
  const { table, contextTokens } = configuredRotary(settings, {
    dims,
    theta: rotaryTheta(settings, config, 'rope_theta', defaults.theta),
    contextTokens: sizes.contextTokens,
  });
  const interval = config.integer('full_attention_interval', { min: 1, max: LIMITS.layers.max }, INTERVAL);
  const delta = {
    keyHeads: config.integer('linear_num_key_heads', LIMITS.heads, 16),
    valueHeads: config.integer('linear_num_value_heads', LIMITS.heads, 32),
    keyDim: config.integer('linear_key_head_dim', LIMITS.headDim, 128),
    valueDim: config.integer('linear_value_head_dim', LIMITS.headDim, 128),
  };
  requireFalse(config, 'attention_bias');
  requireSilu(config);
  return {
    family,
    ...sizes,
    contextTokens,
    norm: { kind: 'rms', epsilon: config.number('rms_norm_eps', LIMITS.epsilon, defaults.epsilon) },
    residual: 'pre',
    finalNorm: true,
    embedding: { size: hiddenSize, scale: 1 },
    attention: { scale: headDim ** -0.5, qkNorm: 'head', gate: true },
    recurrent: { taps: config.integer('linear_conv_kernel_dim', TAPS, 4), delta },
    position: rotary('halves', dims, table),
    feedForward: { kind: 'gated', activation: activation(config, 'hidden_act', 'silu') },
    layerSpecs: mixedLayers(
      config,
      layers,
      ['linear_attention'],
      'delta-rule',
      (layer) => (layer + 1) % interval === 0,
    ),
  };
}

/** Queries and their gates, head by head in one tensor. */
function gatedQueries(tensor: string, { heads, headDim }: DecoderSpec): WeightSource[] {
  const part = (index: number) => ({ groups: heads, sizes: [headDim, headDim], index });
  return [
    { role: 'q.weight', tensor, part: part(0) },
    { role: 'q_gate.weight', tensor, part: part(1) },
  ];
}

/**
 * Lists the weights that go into the delta rule, in tensors that have the rows of each key head together: its query,
 * key, values and gates; and how much its value heads write and forget.
 */
function fusedProjections(decoder: DecoderSpec, projections: string, shares: string): WeightSource[] {
  const { keyHeads: groups = 1, valueHeads = 1, keyDim = 1, valueDim = 1 } = decoder.recurrent?.delta ?? {};
  const heads = Math.floor(valueHeads / groups);
  const sizes = [keyDim, keyDim, heads * valueDim, heads * valueDim];
  return [
    { role: 'delta_in.weight', tensor: projections, part: { groups, sizes, index: [0, 1, 2] } },
    { role: 'delta_gate.weight', tensor: projections, part: { groups, sizes, index: 3 } },
    ...fusedShares(decoder, shares),
  ];
}

function fusedShares({ recurrent }: DecoderSpec, tensor: string): WeightSource[] {
  const { keyHeads: groups = 1, valueHeads = 1 } = recurrent?.delta ?? {};
  const heads = Math.floor(valueHeads / groups);
  const part = (index: number) => ({ groups, sizes: [heads, heads], index });
  return [
    { role: 'delta_beta.weight', tensor, part: part(0) },
    { role: 'delta_decay.weight', tensor, part: part(1) },
  ];
}

/** Its weights in safetensors but those of the feed-forward blocks. @param fused as Qwen3-Next has its projections */
export function gatedDeltaWeights(decoder: DecoderSpec, tied: boolean, fused: boolean): WeightSource[] {
  const layer = (name: string): string => `${LLAMA_LAYER}${name}`;
  return [
    ...weights('{base}', { token_embedding: 'embed_tokens.weight' }),
    head('lm_head.weight', tied),
    ...normsLessOne({
      ...PRE_NORMS,
      'q_norm.weight': 'self_attn.q_norm.weight',
      'k_norm.weight': 'self_attn.k_norm.weight',
    }),
    ...gatedQueries(layer('self_attn.q_proj.weight'), decoder),
    ...weights(LLAMA_LAYER, { 'delta_conv.weight': 'linear_attn.conv1d.weight' }, { reshaped: true }),
    ...weights(LLAMA_LAYER, {
      'k.weight': 'self_attn.k_proj.weight',
      'v.weight': 'self_attn.v_proj.weight',
      'o.weight': 'self_attn.o_proj.weight',
      'decay.log': 'linear_attn.A_log',
      'decay.bias': 'linear_attn.dt_bias',
      'delta_norm.weight': 'linear_attn.norm.weight',
      'delta_out.weight': 'linear_attn.out_proj.weight',
    }),
    ...(fused
      ? fusedProjections(decoder, layer('linear_attn.in_proj_qkvz.weight'), layer('linear_attn.in_proj_ba.weight'))
      : weights(LLAMA_LAYER, {
          'delta_in.weight': 'linear_attn.in_proj_qkv.weight',
          'delta_gate.weight': 'linear_attn.in_proj_z.weight',
          'delta_beta.weight': 'linear_attn.in_proj_b.weight',
          'delta_decay.weight': 'linear_attn.in_proj_a.weight',
        })),
  ];
}

/**
 * The same decoder from GGUF metadata, which count layers that guess further tokens.
 * @param tiled value heads are in llama.cpp's order: Qwen 3.5's are, Qwen3-Next's are not
 */
export function gatedDeltaGguf(family: string, model: GgufModel, tiled: boolean): DecoderSpec {
  const { fields } = model;
  const plain = skipNextTokenLayers(gatedGguf(family, model, 'halves'), model);
  const valueHeads = fields.integer('ssm.time_step_rank', LIMITS.heads);
  const inner = fields.integer('ssm.inner_size', LIMITS.hidden);
  if (inner % valueHeads !== 0 || inner / valueHeads > LIMITS.headDim.max)
    fields.refuse('ssm.inner_size', `up to ${LIMITS.headDim.max} elements for each of ${valueHeads} heads`);
  const interval = fields.integer('full_attention_interval', { min: 1, max: LIMITS.layers.max }, INTERVAL);
  return {
    ...plain,
    attention: { ...plain.attention, qkNorm: 'head', gate: true },
    recurrent: {
      taps: fields.integer('ssm.conv_kernel', TAPS),
      decay: 'negated',
      delta: {
        keyHeads: fields.integer('ssm.group_count', LIMITS.heads),
        valueHeads,
        keyDim: fields.integer('ssm.state_size', LIMITS.headDim),
        valueDim: inner / valueHeads,
        ...(tiled && { tiled }),
      },
    },
    layerSpecs: layersByMixer(plain.layers, 'delta-rule', listedLayers(fields, plain.layers, interval)),
  };
}

/** Which layers attend: those that are not listed as recurrent; else every so-manieth. */
function listedLayers(fields: Fields, layers: number, interval: number): (layer: number) => boolean {
  const given = fields.raw('attention.recurrent_layers');
  if (!Array.isArray(given) && !ArrayBuffer.isView(given)) return (layer) => (layer + 1) % interval === 0;
  const listed = Array.from(given as ArrayLike<unknown>);
  if (listed.length < layers) fields.refuse('attention.recurrent_layers', `an entry for each of ${layers} layers`);
  return (layer) => listed[layer] === false || listed[layer] === 0;
}

/** Its weights in GGUF but those of the feed-forward blocks. */
export function gatedDeltaGgufWeights(decoder: DecoderSpec, { tensors }: GgufModel): WeightSource[] {
  const layer = (name: string): string => `${GGUF_LAYER}${name}`;
  const first = decoder.layerSpecs.findIndex(({ mixer }) => mixer === 'delta-rule');
  const has = (name: string): boolean => tensors.has(`blk.${first}.${name}`);
  return [
    ...ggufGlobals(),
    ...weights(GGUF_LAYER, {
      'norm1.weight': 'attn_norm.weight',
      'norm2.weight': 'post_attention_norm.weight',
      'k.weight': 'attn_k.weight',
      'v.weight': 'attn_v.weight',
      'o.weight': 'attn_output.weight',
      'q_norm.weight': 'attn_q_norm.weight',
      'k_norm.weight': 'attn_k_norm.weight',
      'decay.negated': 'ssm_a',
      'decay.bias': 'ssm_dt.bias',
      'delta_norm.weight': 'ssm_norm.weight',
      'delta_out.weight': 'ssm_out.weight',
    }),
    ...gatedQueries(layer('attn_q.weight'), decoder),
    ...weights(GGUF_LAYER, { 'delta_conv.weight': 'ssm_conv1d.weight' }, { reshaped: true }),
    // Files that older converters wrote have all projections in one tensor.
    ...(has('ssm_in.weight')
      ? fusedProjections(decoder, layer('ssm_in.weight'), layer('ssm_ba.weight'))
      : [
          ...weights(GGUF_LAYER, { 'delta_in.weight': 'attn_qkv.weight', 'delta_gate.weight': 'attn_gate.weight' }),
          ...(has('ssm_ba.weight')
            ? fusedShares(decoder, layer('ssm_ba.weight'))
            : weights(GGUF_LAYER, {
                'delta_beta.weight': 'ssm_beta.weight',
                'delta_decay.weight': 'ssm_alpha.weight',
              })),
        ]),
  ];
}
