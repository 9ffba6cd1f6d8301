import { ModelFileError } from '../../errors/ModelFileError.js';
import type { DecoderSpec, LayerSpec, RotaryTable } from '../DecoderSpec.js';
import type { Fields } from './Fields.js';

const ACTIVATIONS: Readonly<Record<string, DecoderSpec['feedForward']['activation']>> = {
  relu: 'relu',
  relu2: 'relu-squared',
  gelu: 'gelu',
  gelu_python: 'gelu',
  gelu_new: 'gelu-tanh',
  gelu_fast: 'gelu-tanh',
  gelu_pytorch_tanh: 'gelu-tanh',
  gelu_python_tanh: 'gelu-tanh',
  gelu_accurate: 'gelu-tanh',
  silu: 'silu',
  swish: 'silu',
  xielu: 'xielu',
};

/** The activation by transformers' name for it. */
export function activation(config: Fields, key: string, fallback: string): DecoderSpec['feedForward']['activation'] {
  const name = config.string(key, fallback);
  return (
    (Object.hasOwn(ACTIVATIONS, name) ? ACTIVATIONS[name] : undefined) ??
    config.refuse(key, `one of ${Object.keys(ACTIVATIONS).join(', ')}`)
  );
}

/** Refuses an activation where SiLU alone is computed, such as after the convolutions of recurrent layers. */
export function requireSilu(config: Fields, key = 'hidden_act'): void {
  if (activation(config, key, 'silu') !== 'silu') config.refuse(key, 'silu: layers that remember a state have it');
}

/** Refuses what a configuration asks for and nobody computes: members that are not false. */
export function requireFalse(config: Fields, ...keys: readonly string[]): void {
  for (const key of keys) if (config.boolean(key, false)) config.refuse(key, 'false');
}

/** `count` layers alike. */
export function sameLayers(count: number, window = 0): LayerSpec[] {
  return Array.from({ length: count }, () => ({ window, rotaryTable: 0 }));
}

export function withQueryKeyNorm(decoder: DecoderSpec): DecoderSpec {
  return { ...decoder, attention: { ...decoder.attention, qkNorm: 'head' } };
}

export function rotary(style: 'pairs' | 'halves', dims: number, ...tables: RotaryTable[]): DecoderSpec['position'] {
  return { kind: 'rotary', style, dims, tables };
}

/** Elements of a head where a configuration does not say: hidden size / heads, which must then divide. */
export function dividedHeadDim(config: Fields, hiddenSize: number, heads: number, key = 'num_attention_heads'): number {
  return hiddenSize % heads === 0
    ? hiddenSize / heads
    : config.refuse(key, `a divisor of the hidden size ${hiddenSize}`, heads);
}

/** Checks what every decoder must satisfy, whatever family it is of and however its numbers came about. */
export function checkDecoder(file: string, decoder: DecoderSpec): void {
  const refuse = (field: string, found: unknown, expected: string): never => {
    throw new ModelFileError(file, field, String(found), expected);
  };
  const { heads, kvHeads, headDim, position, feedForward } = decoder;
  if (heads % kvHeads !== 0) refuse('key/value heads', kvHeads, `a divisor of the ${heads} query heads`);
  if (heads * headDim > 2 ** 18) refuse('heads x head size', heads * headDim, `at most ${2 ** 18}`);
  if (!Number.isFinite(decoder.attention.scale)) refuse('attention scale', decoder.attention.scale, 'a finite number');
  if (feedForward.experts !== undefined) {
    const { count, perToken, identities = 0 } = feedForward.experts;
    const routed = count + identities;
    if (perToken > routed) refuse('experts per token', perToken, `at most ${routed}, the number of experts`);
    const groups = feedForward.experts.router?.groups;
    if (groups !== undefined && (count % groups.count !== 0 || groups.count > 64))
      refuse('groups of experts', groups.count, `a divisor of the ${count} experts, at most 64`);
    if (groups !== undefined && (groups.perToken > groups.count || (count / groups.count) * groups.perToken < perToken))
      refuse(
        'groups per token',
        groups.perToken,
        `at most ${groups.count}, which have the ${perToken} experts of a token`,
      );
    if (count * decoder.layers > 2 ** 16) refuse('experts x layers', count * decoder.layers, `at most ${2 ** 16}`);
  }
  const { valueDim = 1 } = decoder.attention;
  for (const layer of decoder.layerSpecs) {
    const { headDim: size = headDim, kvHeads: own = kvHeads, heads: queries = heads, rotaryTable } = layer;
    if (queries % own !== 0) refuse('key/value heads', own, `a divisor of the ${queries} query heads`);
    if (valueDim > size) refuse('elements of a value', valueDim, `at most the head size ${size}`);
    const table = position.kind === 'rotary' && rotaryTable !== 'none' ? position.tables[rotaryTable] : undefined;
    if (!decoder.attention.latent && table && 2 * table.frequencies.length > size)
      refuse('rotated elements of a head', 2 * table.frequencies.length, `at most the head size ${size}`);
  }
  if (position.kind !== 'rotary') return;
  if (position.dims % 2 !== 0 || position.dims < 2 || position.dims > headDim) {
    refuse('rotated elements of a head', position.dims, `an even number from 2 to the head size ${headDim}`);
  }
  for (const table of position.tables) {
    // Layers may rotate several shares of their heads.
    const own = position.tables.length > 1;
    const length = table.frequencies.length;
    const good =
      (own ? length > 0 && length <= position.dims / 2 : length === position.dims / 2) &&
      table.frequencies.every(Number.isFinite) &&
      Number.isFinite(table.scale);
    if (!good)
      refuse(
        'rotary frequencies',
        'some that are not finite',
        `${position.dims / 2} finite numbers, and a finite factor`,
      );
  }
}

const f32 = Math.fround;

/**
 * Slopes of ALiBi (Press et al., 2022), one a head, in float32: a geometric series for the largest power of two of the
 * heads, and for the rest every other term of the series for twice as many.
 */
export function alibiSlopes(heads: number): Float32Array {
  const power = 2 ** Math.floor(Math.log2(heads));
  const base = (count: number): number => f32(2 ** -(2 ** -(Math.log2(count) - 3)));
  return Float32Array.from({ length: heads }, (_, head) =>
    head < power ? base(power) ** (head + 1) : base(2 * power) ** (2 * (head - power) + 1),
  );
}
