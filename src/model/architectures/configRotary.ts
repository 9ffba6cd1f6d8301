import type { RotaryTable } from '../DecoderSpec.js';
import { Fields, LIMITS } from './Fields.js';
import {
  defaultFrequencies,
  linearTable,
  llama3Table,
  longRopeMagnitude,
  longRopeTable,
  yarnContext,
  yarnMagnitude,
  yarnTable,
} from './rotaryFrequencies.js';

/** The facts of the rest of the model that a rotary encoding needs to know. */
export interface RotaryContext {
  /** Elements of a head that are rotated. */
  readonly dims: number;
  readonly theta: number;
  readonly contextTokens: number;
  /** The context before scaling, where the scaling's own object does not say. */
  readonly originalContext?: number;
}

export interface ConfiguredRotary {
  readonly table: RotaryTable;
  /** Positions for which this table is right: fewer than the configuration says for LongRoPE, perhaps more for YaRN. */
  readonly contextTokens: number;
}

/**
 * The object with the rotary settings of a config.json: `rope_scaling` of transformers 4 where it holds something, else
 * `rope_parameters` of transformers 5, else an empty one.
 */
export function rotaryFields(config: Fields): Fields {
  const scaling = config.raw('rope_scaling');
  const filled = typeof scaling === 'object' && scaling !== null && Object.keys(scaling).length > 0;
  const fields = filled ? config.child('rope_scaling') : config.child('rope_parameters');
  return fields ?? Fields.ofObject(config.file, {}, 'rope_parameters');
}

/** theta from the rotary settings, or from the config's own field, or the family's default. */
export function rotaryTheta(rotary: Fields, config: Fields, key: string, fallback: number): number {
  return rotary.has('rope_theta')
    ? rotary.number('rope_theta', LIMITS.theta)
    : config.number(key, LIMITS.theta, fallback);
}

/**
 * The rotary encoding of families that rotate whole heads; a partial rotation is refused, as transformers cannot run it
 * either.
 */
export function wholeHeadRotary(
  config: Fields,
  headDim: number,
  contextTokens: number,
  defaultTheta = 10000,
): ConfiguredRotary {
  const rotary = rotaryFields(config);
  for (const fields of [rotary, config]) {
    if ((fields.numberOrNull('partial_rotary_factor', { min: 0, max: 1 }) ?? 1) !== 1) {
      fields.refuse('partial_rotary_factor', 'none, or 1: this family rotates whole heads');
    }
  }
  const theta = rotaryTheta(rotary, config, 'rope_theta', defaultTheta);
  const original = config.integerOrNull('original_max_position_embeddings', LIMITS.context, null);
  return configuredRotary(rotary, {
    dims: headDim,
    theta,
    contextTokens,
    ...(original !== null && { originalContext: original }),
  });
}

/** The rotary encoding of families that rotate the first elements of a head only; `share` of them by default. */
export function partialRotary(
  config: Fields,
  { headDim, contextTokens }: { readonly headDim: number; readonly contextTokens: number },
  defaultTheta: number,
  share: number,
): ConfiguredRotary & { readonly dims: number } {
  const rotary = rotaryFields(config);
  const from = rotary.has('partial_rotary_factor') ? rotary : config;
  const dims = rotatedOf(from, headDim, share);
  const theta = rotaryTheta(rotary, config, 'rope_theta', defaultTheta);
  return { ...configuredRotary(rotary, { dims, theta, contextTokens }), dims };
}

/** Elements of a head that settings rotate: a share of them. */
export function rotatedOf(settings: Fields, headDim: number, share: number): number {
  const dims = Math.floor(headDim * settings.number('partial_rotary_factor', { min: 0, max: 1 }, share));
  return dims >= 2 && dims % 2 === 0
    ? dims
    : settings.refuse('partial_rotary_factor', 'a share that rotates an even number of elements, at least 2');
}

/**
 * The table for one set of rotary settings. The names and defaults are those of transformers' modeling_rope_utils.py.
 */
export function configuredRotary(rotary: Fields, context: RotaryContext): ConfiguredRotary {
  const { dims, theta, contextTokens } = context;
  const type = rotary.string(rotary.has('rope_type') ? 'rope_type' : 'type', 'default');
  const factor = (): number => rotary.number('factor', LIMITS.factor);
  const originalContext = (): number =>
    rotary.integer('original_max_position_embeddings', LIMITS.context, context.originalContext ?? contextTokens);
  switch (type) {
    case 'default':
    case 'dynamic': // NTK scaling by length: unscaled as long as a row stays within max_position_embeddings, and no row here goes beyond
      return { table: { frequencies: defaultFrequencies(theta, dims), scale: 1 }, contextTokens };
    case 'linear':
      return { table: linearTable(theta, dims, factor()), contextTokens };
    case 'llama3': {
      const lowFrequencyFactor = rotary.number('low_freq_factor', LIMITS.factor);
      const highFrequencyFactor = rotary.number('high_freq_factor', LIMITS.factor);
      if (highFrequencyFactor <= lowFrequencyFactor)
        rotary.refuse('high_freq_factor', `more than low_freq_factor, ${lowFrequencyFactor}`);
      const scaling = { factor: factor(), lowFrequencyFactor, highFrequencyFactor, originalContext: originalContext() };
      return { table: llama3Table(theta, dims, scaling), contextTokens };
    }
    case 'yarn':
      return configuredYarn(rotary, context, originalContext());
    case 'longrope':
    case 'su':
      return configuredLongRope(rotary, context, originalContext());
    default:
      return rotary.refuse('rope_type', 'default, linear, dynamic, llama3, yarn or longrope', type);
  }
}

function configuredYarn(
  rotary: Fields,
  { dims, theta, contextTokens }: RotaryContext,
  originalContext: number,
): ConfiguredRotary {
  const factor = rotary.numberOrNull('factor', LIMITS.factor) ?? contextTokens / originalContext;
  const mscale = rotary.numberOrNull('mscale', { min: 0, max: 1e3 });
  const mscaleAllDim = rotary.numberOrNull('mscale_all_dim', { min: 0, max: 1e3 });
  const magnitude =
    mscale && mscaleAllDim
      ? yarnMagnitude(factor, mscale) / yarnMagnitude(factor, mscaleAllDim)
      : yarnMagnitude(factor);
  const table = yarnTable(theta, dims, {
    factor,
    originalContext,
    // null and 0 both mean the default in Python's `or`.
    betaFast: rotary.numberOrNull('beta_fast', { min: 0, max: 1e6 }) || 32,
    betaSlow: rotary.numberOrNull('beta_slow', { min: 0, max: 1e6 }) || 1,
    truncate: rotary.boolean('truncate', true),
    attentionFactor: rotary.numberOrNull('attention_factor', { min: 0, max: 1e3 }) ?? magnitude,
  });
  return { table, contextTokens: yarnContext(contextTokens, originalContext, factor) };
}

/**
 * LongRoPE has two sets of factors: short ones for rows within the original context, long ones beyond it, which change
 * all keys of a row at once. A row here has one table for its whole life, so we take the short ones and bound the
 * context to where they hold: exactly transformers' results for every row that fits, and a longer row is refused
 * instead of being answered differently.
 */
function configuredLongRope(
  rotary: Fields,
  { dims, theta, contextTokens }: RotaryContext,
  originalContext: number,
): ConfiguredRotary {
  const factors = rotary.numbers('short_factor', dims / 2, LIMITS.factor);
  const factor = rotary.numberOrNull('factor', LIMITS.factor) ?? contextTokens / originalContext;
  const attentionFactor =
    rotary.numberOrNull('attention_factor', { min: 0, max: 1e3 }) ?? longRopeMagnitude(factor, originalContext);
  return {
    table: longRopeTable(theta, dims, factors, attentionFactor),
    contextTokens: Math.min(contextTokens, originalContext),
  };
}
