import type { DecoderSpec } from '../DecoderSpec.js';
import type { GgufModel, WeightSource } from './Family.js';
import { LIMITS, type Fields } from './Fields.js';
import { LLAMA_LAYER } from './gatedDecoder.js';
import { stateSpaceWidths } from './mixers.js';
import { requireSilu } from './specs.js';
import { GGUF_LAYER, weights } from './weights.js';

type Recurrent = NonNullable<DecoderSpec['recurrent']>;

const TAPS = { min: 1, max: 64 };
const STATE = { min: 1, max: 4096 };
const GROUPS = { min: 1, max: 1024 };
const STEP = { min: 0, max: Infinity };

/**
 * Sizes of Mamba-2's layers as configurations of hybrids have them.
 * @param width of what comes out of the heads: as `mamba_expand` says, or whatever the heads come to
 */
export function readStateSpace(config: Fields, hiddenSize: number, width: 'expanded' | 'own' = 'expanded'): Recurrent {
  requireSilu(config);
  const heads = config.integer('mamba_n_heads', LIMITS.heads, 128);
  const values =
    width === 'own'
      ? heads * config.integer('mamba_d_head', STATE, 64)
      : config.integer('mamba_expand', { min: 1, max: 64 }, 2) * hiddenSize;
  const headDim =
    (config.raw('mamba_d_head') ?? 'auto') === 'auto'
      ? Math.floor(values / heads)
      : config.integer('mamba_d_head', STATE, 64);
  if (heads * headDim !== values)
    config.refuse('mamba_n_heads', `heads of together ${values} elements, mamba_expand x hidden_size`);
  return {
    taps: config.integer('mamba_d_conv', TAPS, 4),
    stateSpace: {
      heads,
      headDim,
      stateDim: config.integer('mamba_d_state', STATE, 256),
      groups: checkedGroups(config, 'mamba_n_groups', heads, 1),
      ...timeSteps(config),
    },
  };
}

function checkedGroups(fields: Fields, key: string, heads: number, fallback?: number): number {
  const groups = fields.integer(key, GROUPS, fallback);
  return heads % groups === 0 ? groups : fields.refuse(key, `a divisor of the ${heads} heads`);
}

/** Bounds of time steps; transformers writes infinity as an object. */
function timeSteps(config: Fields): Pick<NonNullable<Recurrent['stateSpace']>, 'leastTimeStep' | 'mostTimeStep'> {
  const given = config.raw('time_step_limit') ?? null;
  if (given === null) return {};
  if (!Array.isArray(given) || given.length !== 2) return config.refuse('time_step_limit', 'two numbers, or null');
  const [least, most] = given.map((bound: unknown) => {
    const written = typeof bound === 'object' && bound !== null && '__float__' in bound ? bound.__float__ : bound;
    return written === 'Infinity' ? Infinity : written;
  });
  if (!isStep(least) || !isStep(most) || most < least)
    return config.refuse('time_step_limit', 'a range of numbers of at least 0');
  return { leastTimeStep: least, ...(most !== Infinity && { mostTimeStep: most }) };
}

const isStep = (value: unknown): value is number =>
  typeof value === 'number' && value >= STEP.min && (value <= 3e38 || value === STEP.max);

/** Mamba-2's weights in safetensors: one tensor has a gate, what is convolved, and the time steps. */
export function stateSpaceWeights(decoder: DecoderSpec, config: Fields, prefix = 'mamba.'): WeightSource[] {
  const name = (part: string): string => `${LLAMA_LAYER}${prefix}${part}`;
  const biased = config.boolean('mamba_proj_bias', false);
  return [
    ...projections(decoder, name('in_proj'), biased ? ['weight', 'bias'] : ['weight']),
    { role: 'state_conv.weight', tensor: name('conv1d.weight'), reshaped: true },
    ...weights(name(''), {
      'decay.log': 'A_log',
      'decay.bias': 'dt_bias',
      state_skip: 'D',
      'state_norm.weight': 'norm.weight',
      'state_out.weight': 'out_proj.weight',
      ...(config.boolean('mamba_conv_bias', true) && { 'state_conv.bias': 'conv1d.bias' }),
      ...(biased && { 'state_out.bias': 'out_proj.bias' }),
    }),
  ];
}

function projections(decoder: DecoderSpec, tensor: string, suffixes: readonly ('weight' | 'bias')[]): WeightSource[] {
  const { values, convolved, heads } = stateSpaceWidths(decoder);
  const part = { groups: 1, sizes: [values, convolved, heads], index: [1, 0, 2] };
  return suffixes.map((suffix) => ({ role: `state_in.${suffix}`, tensor: `${tensor}.${suffix}`, part }));
}

/** The same sizes from GGUF metadata. */
export function readGgufStateSpace({ fields }: GgufModel): Recurrent {
  const heads = fields.integer('ssm.time_step_rank', LIMITS.heads);
  const values = fields.integer('ssm.inner_size', LIMITS.hidden);
  if (values % heads !== 0) fields.refuse('ssm.inner_size', `a multiple of the ${heads} heads`);
  return {
    taps: fields.integer('ssm.conv_kernel', TAPS),
    decay: 'negated',
    stateSpace: {
      heads,
      headDim: values / heads,
      stateDim: fields.integer('ssm.state_size', STATE),
      groups: checkedGroups(fields, 'ssm.group_count', heads),
    },
  };
}

/** And the weights. */
export function ggufStateSpaceWeights(decoder: DecoderSpec): WeightSource[] {
  return [
    ...projections(decoder, `${GGUF_LAYER}ssm_in`, ['weight']),
    ...weights(
      GGUF_LAYER,
      {
        'state_conv.weight': 'ssm_conv1d.weight',
        'decay.negated': 'ssm_a',
        state_skip: 'ssm_d',
        'state_norm.weight': 'ssm_norm.weight',
      },
      { reshaped: true },
    ),
    ...weights(GGUF_LAYER, { 'state_conv.bias': 'ssm_conv1d.bias' }, { optional: true }),
    ...weights(GGUF_LAYER, { 'decay.bias': 'ssm_dt.bias', 'state_out.weight': 'ssm_out.weight' }),
  ];
}
