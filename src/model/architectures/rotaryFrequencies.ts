import type { RotaryTable } from '../DecoderSpec.js';
import { LIMITS } from './Fields.js';

const f32 = Math.fround;

/**
 * Angular frequencies of rotary position encodings, and their scalings for longer contexts. All of it in float32,
 * operation by operation as transformers computes it (modeling_rope_utils.py): at position 30,000 the last bit of a
 * frequency is a visible angle.
 */
export function defaultFrequencies(theta: number, dims: number): Float32Array {
  return Float32Array.from({ length: dims / 2 }, (_, i) => f32(1 / power(theta, i, dims)));
}

/**
 * Gives frequencies of a share of a head's pairs, the first ones, as if all were rotated; the others stand still (Gemma
 * 4).
 */
export function proportionalFrequencies(theta: number, dims: number, share: number): Float32Array {
  const rotated = Math.floor((share * dims) / 2);
  return defaultFrequencies(theta, dims).map((frequency, i) => (i < rotated ? frequency : 0));
}

/** theta ** (2 i / dims) */
function power(theta: number, i: number, dims: number): number {
  return f32(f32(theta) ** f32((2 * i) / dims));
}

export function linearTable(theta: number, dims: number, factor: number): RotaryTable {
  return { frequencies: defaultFrequencies(theta, dims).map((frequency) => frequency / f32(factor)), scale: 1 };
}

/** Every frequency divided by one divisor of its own (GGUF's rope_freqs.weight). */
export function dividedTable(theta: number, dims: number, divisors: ArrayLike<number>): RotaryTable {
  return {
    frequencies: defaultFrequencies(theta, dims).map((frequency, i) => frequency / (divisors[i] ?? NaN)),
    scale: 1,
  };
}

export interface Llama3Scaling {
  readonly factor: number;
  readonly lowFrequencyFactor: number;
  readonly highFrequencyFactor: number;
  readonly originalContext: number;
}

/** Long wavelengths are stretched by the factor, short ones kept, those between blended (Llama 3.1). */
export function llama3Table(theta: number, dims: number, scaling: Llama3Scaling): RotaryTable {
  const { factor, lowFrequencyFactor: low, highFrequencyFactor: high, originalContext } = scaling;
  const frequencies = defaultFrequencies(theta, dims).map((frequency) => {
    const wavelength = f32(f32(2 * Math.PI) / frequency);
    if (wavelength > f32(originalContext / low)) return frequency / f32(factor);
    if (wavelength < f32(originalContext / high)) return frequency;
    const smooth = f32(f32(f32(f32(originalContext) / wavelength) - f32(low)) / f32(high - low));
    return f32(f32(f32(f32(1 - smooth) * frequency) / f32(factor)) + f32(smooth * frequency));
  });
  return { frequencies, scale: 1 };
}

export interface YarnScaling {
  readonly factor: number;
  readonly originalContext: number;
  readonly betaFast: number;
  readonly betaSlow: number;
  /** Round the range of blended dimensions outwards to whole numbers. */
  readonly truncate: boolean;
  readonly attentionFactor: number;
}

/**
 * YaRN (Peng et al., 2023): interpolates the slow dimensions, keeps the fast ones, ramps between, and scales cos and
 * sin.
 */
export function yarnTable(theta: number, dims: number, scaling: YarnScaling): RotaryTable {
  const dimensionOf = (rotations: number): number =>
    (dims * Math.log(scaling.originalContext / (rotations * 2 * Math.PI))) / (2 * Math.log(theta));
  const from = dimensionOf(scaling.betaFast);
  const to = dimensionOf(scaling.betaSlow);
  const low = Math.max(scaling.truncate ? Math.floor(from) : from, 0);
  const end = Math.min(scaling.truncate ? Math.ceil(to) : to, dims - 1);
  const high = end === low ? end + 0.001 : end;
  const frequencies = Float32Array.from({ length: dims / 2 }, (_, i) => {
    const ramp = Math.min(Math.max(f32(f32(i - f32(low)) / f32(high - low)), 0), 1);
    const kept = f32(1 - ramp);
    const extrapolated = f32(1 / power(theta, i, dims));
    const interpolated = f32(1 / f32(f32(scaling.factor) * power(theta, i, dims)));
    return f32(f32(interpolated * f32(1 - kept)) + f32(extrapolated * kept));
  });
  return { frequencies, scale: scaling.attentionFactor };
}

/** 0.1 m ln(factor) + 1: how much YaRN sharpens attention. */
export function yarnMagnitude(factor: number, m = 1): number {
  return factor <= 1 ? 1 : 0.1 * m * Math.log(factor) + 1;
}

/**
 * Qwen's configurations keep the context before scaling in max_position_embeddings; scaled, it is the original one
 * times the factor.
 */
export function yarnContext(contextTokens: number, originalContext: number, factor: number): number {
  return Math.max(contextTokens, Math.min(Math.floor(originalContext * factor), LIMITS.context.max));
}

/** LongRoPE: a factor of its own for each frequency. */
export function longRopeTable(
  theta: number,
  dims: number,
  factors: ArrayLike<number>,
  attentionFactor: number,
): RotaryTable {
  const frequencies = Float32Array.from({ length: dims / 2 }, (_, i) =>
    f32(1 / f32(f32(factors[i] ?? NaN) * power(theta, i, dims))),
  );
  return { frequencies, scale: attentionFactor };
}

/** How much LongRoPE sharpens attention, for a context that is `factor` times the original one. */
export function longRopeMagnitude(factor: number, originalContext: number): number {
  return factor <= 1 || originalContext <= 1 ? 1 : Math.sqrt(1 + Math.log(factor) / Math.log(originalContext));
}
