import { found } from '../arguments/found.js';
import { RowError } from '../errors/RowError.js';
import type { EmbeddedAnswer } from '../KeptAnswer.js';
import type { EmbedOptions, VectorRanges, VectorType } from '../Results.js';
import { float16Bits, LARGEST_FLOAT16, ofFloat16Bits, roundedToFloat16 } from './float16.js';
import { float32Numbers, float32Of, float32Text } from './float32.js';

/** An embedding in one form, whichever it has: numbers of its type and their base64 say the same. Pure. */
export function embeddingAs(
  { embedding, vectorType = 'float32' }: EmbeddedAnswer,
  encoding: NonNullable<EmbedOptions['encoding']>,
): EmbeddedAnswer['embedding'] {
  if (encoding === 'base64') return typeof embedding === 'string' ? embedding : textOf(embedding, vectorType);
  if (typeof embedding !== 'string') return embedding;
  const values = numbersOf(embedding, vectorType);
  if (values === undefined) throw new Error(`found an embedding that is no base64 of ${vectorType}`);
  return values;
}

/**
 * A pooled hidden state as it is handed out: its first dimensions, to a length of 1, in float32; then as the type has
 * it. Pure.
 * @param hidden [hiddenSize], finite
 * @returns numbers, of float32 with 9 significant digits, which are its own; or their bytes, little-endian, in base64
 * @throws RowError for what the type has no room for
 */
export function encodedEmbedding(
  hidden: Float32Array,
  {
    dimensions = hidden.length,
    normalize = true,
    encoding = 'float',
    vectorType = 'float32',
    vectorRanges,
  }: Pick<EmbedOptions, 'dimensions' | 'normalize' | 'encoding' | 'vectorType' | 'vectorRanges'>,
): EmbeddedAnswer {
  const values = hidden.slice(0, dimensions);
  if (normalize) toLengthOne(values);
  if (vectorType === 'float32')
    return { embedding: encoding === 'float' ? float32Numbers(values) : float32Text(values) };
  const { numbers, scale } = quantised(values, vectorType, vectorRanges);
  return {
    embedding: encoding === 'float' ? numbers : textOf(numbers, vectorType),
    vectorType,
    ...(scale !== undefined && { scale }),
  };
}

/** By index: each row has hundreds of numbers, and a function that is called with one makes an object of it. */
function toLengthOne(values: Float32Array): void {
  let squares = 0;
  for (let at = 0; at < values.length; at++) {
    const value = values[at] ?? 0;
    squares += value * value;
  }
  const length = Math.sqrt(squares);
  // A vector of zeros has no direction.
  if (length > 0) for (let at = 0; at < values.length; at++) values[at] = (values[at] ?? 0) / length;
}

interface Quantised {
  readonly numbers: number[];
  /** The factor that makes the numbers the vector's again. */
  readonly scale?: number;
}

function quantised(
  values: Float32Array,
  type: Exclude<VectorType, 'float32'>,
  ranges: VectorRanges | undefined,
): Quantised {
  switch (type) {
    case 'float16':
      return { numbers: Array.from(values, halfOf) };
    case 'int8':
      return ranges ? { numbers: inRanges(values, ranges, -128) } : byLargest(values);
    case 'uint8':
      if (!ranges) throw new RowError('invalid-parameter', 'vectorType: found uint8 without vectorRanges');
      return { numbers: inRanges(values, ranges, 0) };
    case 'binary':
      return { numbers: signs(values).map((byte) => byte - 128) };
    case 'ubinary':
      return { numbers: signs(values) };
  }
}

function halfOf(value: number): number {
  const half = roundedToFloat16(value);
  if (Number.isFinite(half)) return half;
  throw new RowError(
    'numeric',
    `vectorType: found a member ${value} of the embedding, expected at most ${LARGEST_FLOAT16}, the largest of float16`,
  );
}

/** The largest member is 127 or -127, whichever row it is of: nothing but the row decides. */
function byLargest(values: Float32Array): Quantised {
  const largest = values.reduce((most, value) => Math.max(most, Math.abs(value)), 0);
  const scale = Math.fround(largest / 127);
  // Of a scale below float32's least number nothing is left.
  const numbers = Array.from(values, (value) =>
    scale > 0 ? Math.max(-127, Math.min(127, Math.round(value / scale))) + 0 : 0,
  );
  return { numbers, scale: Number(scale.toPrecision(9)) };
}

/**
 * As sentence-transformers' `quantize_embeddings` with `ranges`: 256 steps from each dimension's least number to its
 * most, in float32, of which the part after the point is left out; what lies outside is at the end, where there it
 * would come in again at the other one.
 */
function inRanges(values: Float32Array, { min, max }: VectorRanges, least: -128 | 0): number[] {
  if (values.length !== min.length)
    throw new RowError(
      'invalid-parameter',
      `vectorRanges: found those of ${min.length} dimensions, expected those of ${values.length}`,
    );
  const f32 = Math.fround;
  return Array.from(values, (value, at) => {
    const [start, end] = [f32(min[at] ?? 0), f32(max[at] ?? 0)];
    const step = f32(f32(end - start) / 255);
    const place = step > 0 ? f32(f32(value - start) / step) : 0;
    return Math.max(least, Math.min(255 + least, Math.trunc(f32(place + least)))) + 0;
  });
}

/** A bit a member, 1 above zero, the first one highest; as numpy's `packbits`, which fills the last byte with zeros. */
function signs(values: Float32Array): number[] {
  return Array.from({ length: Math.ceil(values.length / 8) }, (_, byte) => {
    let bits = 0;
    for (let bit = 0; bit < 8; bit++) bits |= Number((values[8 * byte + bit] ?? 0) > 0) << (7 - bit);
    return bits;
  });
}

function textOf(numbers: readonly number[], type: VectorType): string {
  if (type === 'float32') return float32Text(Float32Array.from(numbers));
  if (type !== 'float16') return Buffer.from(Int8Array.from(numbers).buffer).toString('base64');
  const bytes = Buffer.alloc(2 * numbers.length);
  numbers.forEach((value, at) => bytes.writeUInt16LE(float16Bits(value), 2 * at));
  return bytes.toString('base64');
}

function numbersOf(text: string, type: VectorType): number[] | undefined {
  if (type === 'float32') {
    const values = float32Of(text);
    return values && float32Numbers(values);
  }
  const bytes = Buffer.from(text, 'base64');
  if (bytes.toString('base64') !== text) return undefined;
  if (type !== 'float16') return Array.from(bytes, (byte) => (UNSIGNED.has(type) || byte < 128 ? byte : byte - 256));
  if (bytes.length % 2 !== 0) return undefined;
  return Array.from({ length: bytes.length / 2 }, (_, at) => ofFloat16Bits(bytes.readUInt16LE(2 * at)));
}

const UNSIGNED: ReadonlySet<VectorType> = new Set(['uint8', 'ubinary']);

/** Says what is wrong with ranges; undefined for nothing. Pure. */
export function wrongRanges(value: unknown): string | undefined {
  const { min, max } = (value ?? {}) as { readonly min?: unknown; readonly max?: unknown };
  if (!Array.isArray(min) || !Array.isArray(max) || min.length !== max.length || min.length === 0)
    return `${found(value)}, expected { min, max }, lists of as many numbers as there are dimensions`;
  const lists: readonly (readonly unknown[])[] = [min, max];
  const wrong = lists.flat().find((each) => typeof each !== 'number' || !Number.isFinite(each));
  if (wrong !== undefined) return `${found(wrong)}, expected finite numbers`;
  const at = lists[0]?.findIndex((least, index) => (least as number) > (lists[1]?.[index] as number)) ?? -1;
  return at < 0 ? undefined : `a least number above the most one of dimension ${at}, expected one that is not`;
}
