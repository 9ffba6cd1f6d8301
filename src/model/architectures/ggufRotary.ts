import { ModelFileError } from '../../errors/ModelFileError.js';
import type { RotaryTable } from '../DecoderSpec.js';
import type { GgufModel } from './Family.js';
import { foundInFile } from '../../arguments/found.js';
import { LIMITS } from './Fields.js';
import {
  defaultFrequencies,
  dividedTable,
  linearTable,
  longRopeTable,
  yarnContext,
  yarnMagnitude,
  yarnTable,
} from './rotaryFrequencies.js';

/** Divides frequencies of elements that are not rotated (Gemma 4). */
const MOST_DIVISOR = 1e31;
const MAGNITUDE = { min: 0, max: 1e3 };

export interface GgufRotary {
  readonly table: RotaryTable;
  /** Positions for which the table is right: fewer than the metadata say for LongRoPE, perhaps more for YaRN. */
  readonly contextTokens: number;
}

/**
 * The rotary table that GGUF metadata describe under `rope.*`, with llama.cpp's defaults.
 * @param truncate what the metadata do not say of YaRN (`YarnScaling.truncate`)
 */
export function ggufRotary(model: GgufModel, dims: number, contextTokens: number, truncate = true): GgufRotary {
  const { fields } = model;
  const theta = fields.number('rope.freq_base', LIMITS.theta, 10000);
  const type = fields.string('rope.scaling.type', 'linear');
  const magnitude = fields.number('rope.scaling.attn_factor', MAGNITUDE, 1);
  const original = fields.integer('rope.scaling.original_context_length', LIMITS.context, contextTokens);
  const plain = { frequencies: defaultFrequencies(theta, dims), scale: magnitude };

  const divisors = auxiliaryVector(model, 'rope_freqs.weight', dims, MOST_DIVISOR);
  if (divisors !== undefined)
    return { table: { ...dividedTable(theta, dims, divisors), scale: magnitude }, contextTokens };
  auxiliaryVector(model, 'rope_factors_long.weight', dims);
  const shortFactors = auxiliaryVector(model, 'rope_factors_short.weight', dims);
  if (shortFactors !== undefined) {
    // As with config.json: the short factors, and the context within which they hold.
    return {
      table: longRopeTable(theta, dims, shortFactors, magnitude),
      contextTokens: Math.min(contextTokens, original),
    };
  }
  switch (type) {
    case 'none':
      return { table: plain, contextTokens };
    case 'linear': {
      const factor = scalingFactor(model);
      return { table: factor === 1 ? plain : { ...linearTable(theta, dims, factor), scale: magnitude }, contextTokens };
    }
    case 'yarn': {
      const factor = scalingFactor(model);
      // Another magnitude by which the usual one is divided (Mistral 3).
      const multiplier = fields.number('rope.scaling.yarn_log_multiplier', MAGNITUDE, 0);
      const usual = yarnMagnitude(factor) / (multiplier === 0 ? 1 : yarnMagnitude(factor, multiplier));
      const attentionFactor = fields.number('rope.scaling.yarn_attn_factor', MAGNITUDE, usual) * magnitude;
      const betaFast = fields.number('rope.scaling.yarn_beta_fast', LIMITS.factor, 32);
      const betaSlow = fields.number('rope.scaling.yarn_beta_slow', LIMITS.factor, 1);
      const table = yarnTable(theta, dims, {
        factor,
        originalContext: original,
        betaFast,
        betaSlow,
        truncate,
        attentionFactor,
      });
      return { table, contextTokens: yarnContext(contextTokens, original, factor) };
    }
    case 'longrope':
      return fields.refuse('rope.scaling.type', 'the tensor rope_factors_short.weight with it');
    default:
      return fields.refuse('rope.scaling.type', 'none, linear, yarn or longrope');
  }
}

/** 0, or nothing, means unscaled. */
function scalingFactor({ fields }: GgufModel): number {
  const key = fields.has('rope.scaling.factor') ? 'rope.scaling.factor' : 'rope.scale_linear';
  return fields.number(key, { min: 0, max: LIMITS.factor.max }, 0) || 1;
}

/** The contents of one of the file's AUXILIARY_VECTORS, which must have a positive factor for each frequency. */
function auxiliaryVector(
  { tensors, vectors }: GgufModel,
  name: string,
  dims: number,
  most: number = LIMITS.factor.max,
): Float32Array | undefined {
  if (!tensors.has(name)) return undefined;
  tensors.take(name);
  const values = vectors.get(name);
  const good = values?.length === dims / 2 && values.every((value) => value >= LIMITS.factor.min && value <= most);
  if (good) return values;
  const expected = `${dims / 2} factors from ${LIMITS.factor.min} to ${most}`;
  throw new ModelFileError(tensors.path, `tensor ${name}`, foundInFile(values), expected);
}
