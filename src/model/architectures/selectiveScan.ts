import type { DecoderSpec } from '../DecoderSpec.js';
import type { GgufModel, WeightSource } from './Family.js';
import { LIMITS, type Fields } from './Fields.js';
import { GGUF_LAYER, weights } from './weights.js';

type Recurrent = NonNullable<DecoderSpec['recurrent']>;

const TAPS = { min: 1, max: 64 };
const STATE = { min: 1, max: 4096 };
const EXPAND = { min: 1, max: 64 };
/** That of Falcon Mamba, for which GGUF has no key. */
export const UNWEIGHTED_EPSILON = 1e-6;

/**
 * Sizes of Mamba's layers, under the names that hybrids have.
 * @param norms of what time steps, and what states are written and read by, are made of
 */
export function readScan(
  config: Fields,
  hiddenSize: number,
  norms?: NonNullable<Recurrent['scan']>['norms'],
): Recurrent {
  const rank = config.raw('mamba_dt_rank') ?? 'auto';
  return {
    taps: config.integer('mamba_d_conv', TAPS, 4),
    scan: {
      channels:
        config.integerOrNull('mamba_channels', LIMITS.hidden, null) ??
        config.integer('mamba_expand', EXPAND, 2) * hiddenSize,
      stateDim: config.integer('mamba_d_state', STATE, 16),
      rank: rank === 'auto' ? Math.ceil(hiddenSize / 16) : config.integer('mamba_dt_rank', LIMITS.hidden),
      ...(norms && { norms }),
    },
  };
}

/** Mamba's weights in safetensors, after this prefix. */
export function scanWeights(
  { recurrent }: DecoderSpec,
  prefix: string,
  { biased, convBiased }: { readonly biased: boolean; readonly convBiased: boolean },
): WeightSource[] {
  return [
    { role: 'scan_conv.weight', tensor: `${prefix}conv1d.weight`, reshaped: true },
    { role: 'decay.log', tensor: `${prefix}A_log`, reshaped: true },
    ...weights(prefix, {
      'scan_in.weight': 'in_proj.weight',
      'scan_parts.weight': 'x_proj.weight',
      'scan_step.weight': 'dt_proj.weight',
      'decay.bias': 'dt_proj.bias',
      scan_skip: 'D',
      'scan_out.weight': 'out_proj.weight',
      ...(convBiased && { 'scan_conv.bias': 'conv1d.bias' }),
      ...(biased && { 'scan_in.bias': 'in_proj.bias', 'scan_out.bias': 'out_proj.bias' }),
      ...(recurrent?.scan?.norms?.weighted === true && {
        'scan_step_norm.weight': 'dt_layernorm.weight',
        'scan_written_norm.weight': 'b_layernorm.weight',
        'scan_read_norm.weight': 'c_layernorm.weight',
      }),
    }),
  ];
}

/** The same sizes from GGUF metadata. */
export function readGgufScan({ fields, tensors }: GgufModel, layer: number, epsilon: number): Recurrent {
  const weighted = tensors.has(`blk.${layer}.ssm_dt_norm.weight`);
  const norms = weighted || fields.boolean('ssm.dt_b_c_rms', false);
  return {
    taps: fields.integer('ssm.conv_kernel', TAPS),
    decay: 'negated',
    scan: {
      channels: fields.integer('ssm.inner_size', LIMITS.hidden),
      stateDim: fields.integer('ssm.state_size', STATE),
      rank: fields.integer('ssm.time_step_rank', LIMITS.hidden),
      ...(norms && { norms: { epsilon: weighted ? epsilon : UNWEIGHTED_EPSILON, weighted } }),
    },
  };
}

/** And the weights. */
export function ggufScanWeights({ recurrent }: DecoderSpec): WeightSource[] {
  return [
    ...weights(
      GGUF_LAYER,
      { 'scan_conv.weight': 'ssm_conv1d.weight', 'decay.negated': 'ssm_a', scan_skip: 'ssm_d' },
      { reshaped: true },
    ),
    ...weights(GGUF_LAYER, { 'scan_conv.bias': 'ssm_conv1d.bias' }, { optional: true }),
    ...weights(GGUF_LAYER, {
      'scan_in.weight': 'ssm_in.weight',
      'scan_parts.weight': 'ssm_x.weight',
      'scan_step.weight': 'ssm_dt.weight',
      'decay.bias': 'ssm_dt.bias',
      'scan_out.weight': 'ssm_out.weight',
      ...(recurrent?.scan?.norms?.weighted === true && {
        'scan_step_norm.weight': 'ssm_dt_norm.weight',
        'scan_written_norm.weight': 'ssm_b_norm.weight',
        'scan_read_norm.weight': 'ssm_c_norm.weight',
      }),
    }),
  ];
}
