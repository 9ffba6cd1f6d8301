import { isObject } from '../../../arguments/isObject.js';
import type { DecodedArray, SchemaElement } from 'hyparquet';
import { assembleLists, assembleNested } from 'hyparquet/src/assemble.js';
import { DEFAULT_PARSERS, parseFloat16 } from 'hyparquet/src/convert.js';
import { base64, dateOf, decimal, timeOf, timestampOf, whole, type TimeUnit } from '../columnText.js';
import type { Turns } from '../../../collections/Turns.js';
import type { Slots } from './LeafReader.js';
import { nameOf, type Column, type Leaf } from './schema.js';

type Convert = (value: never) => unknown;

const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

/**
 * The values of a column, one a row, as JSON can hold them: numbers that are too large, decimals, dates and times as
 * text, bytes as base64; lists and structures as such.
 * @param slots of its leaves
 * @param asText of bytes that are not said to be text, whether they are taken for it
 * @throws Error for text that is no UTF-8, and for levels that do not fit together
 */
export function readableValues({ leaves, tree }: Column, slots: readonly Slots[], asText: boolean): ArrayLike<unknown> {
  const [leaf] = leaves;
  const [first] = slots;
  if (leaf?.flat === true && first !== undefined) return mapped(leaf, first.values, asText);
  const rows = new Map(leaves.map((each, at) => [nameOf(each), assembled(each, slots[at], asText)]));
  assembleNested(rows, tree, DEFAULT_PARSERS);
  return Array.from(rows.get(tree.path.join('.')) ?? [], withNulls);
}

/** A list or a structure that is not there is null wherever it is, as a number is: what is undefined loses its key. */
function withNulls(value: unknown): unknown {
  if (value === undefined) return null;
  if (Array.isArray(value)) return value.map(withNulls);
  if (!isObject(value) || Object.getPrototypeOf(value) !== Object.prototype) return value;
  return Object.fromEntries(Object.entries(value).map(([key, of]) => [key, withNulls(of)]));
}

function assembled(leaf: Leaf, slots: Slots | undefined, asText: boolean): DecodedArray {
  if (slots === undefined) return [];
  const { definition, repetition, values } = slots;
  const there = Array.from(values).filter((_, at) => leaf.definition === 0 || definition[at] === leaf.definition);
  return assembleLists([], [...definition], [...repetition], Array.from(mapped(leaf, there, asText)), leaf.path);
}

function mapped({ element }: Leaf, values: ArrayLike<unknown>, asText: boolean): ArrayLike<unknown> {
  const convert = converterOf(element, asText) as ((value: unknown) => unknown) | undefined;
  if (convert === undefined) return values;
  const made = new Array<unknown>(values.length);
  for (let at = 0; at < made.length; at++)
    made[at] = values[at] === null || values[at] === undefined ? null : convert(values[at]);
  return made;
}

function converterOf(element: SchemaElement, asText: boolean): Convert | undefined {
  const { type, converted_type: old, logical_type: kind, scale = 0 } = element;
  if (old === 'DECIMAL' || kind?.type === 'DECIMAL') {
    const digits = kind?.type === 'DECIMAL' ? kind.scale : scale;
    return (value: number | bigint | Uint8Array) =>
      decimal(value instanceof Uint8Array ? bigOf(value) : BigInt(value), digits);
  }
  switch (type) {
    case 'INT32':
      if (old === 'DATE' || kind?.type === 'DATE') return (days: number) => dateOf(days);
      if (old === 'TIME_MILLIS' || kind?.type === 'TIME') return (time: number) => timeOf(BigInt(time), 'MILLIS');
      return isUnsigned(element, 32) ? (value: number) => value >>> 0 : undefined;
    case 'INT64': {
      const timestamp = timestampUnit(element);
      if (timestamp !== undefined)
        return (value: bigint) =>
          timestampOf(
            value,
            timestamp,
            old !== undefined && kind === undefined ? true : kind?.type === 'TIMESTAMP' && kind.isAdjustedToUTC,
          );
      if (old === 'TIME_MICROS' || kind?.type === 'TIME')
        return (time: bigint) => timeOf(time, kind?.type === 'TIME' ? kind.unit : 'MICROS');
      const unsigned = isUnsigned(element, 64);
      return (value: bigint) => whole(unsigned ? BigInt.asUintN(64, value) : value);
    }
    case 'INT96':
      return (value: bigint) => timestampOf(nanosOf(value), 'NANOS', false);
    case 'FLOAT':
    case 'DOUBLE':
      return floatOf;
    case 'FIXED_LEN_BYTE_ARRAY':
      if (kind?.type === 'FLOAT16') return (bytes: Uint8Array) => floatOf(parseFloat16(bytes) ?? NaN);
      if (kind?.type === 'UUID') return (bytes: Uint8Array) => DEFAULT_PARSERS.uuidFromBytes(bytes) as unknown;
      return base64;
    case 'BYTE_ARRAY': {
      return isText(element) || asText ? textOf : base64;
    }
    default:
      return undefined;
  }
}

/** JSON has no words for NaN and infinities. */
function floatOf(value: number): number | string {
  return Number.isFinite(value) ? value : String(value);
}

/** The unit of a column of moments; undefined for others. */
function timestampUnit({ converted_type: old, logical_type: kind }: SchemaElement): TimeUnit | undefined {
  if (kind?.type === 'TIMESTAMP') return kind.unit;
  return old === 'TIMESTAMP_MILLIS' ? 'MILLIS' : old === 'TIMESTAMP_MICROS' ? 'MICROS' : undefined;
}

export function isUnsigned({ converted_type: old, logical_type: kind }: SchemaElement, bits?: number): boolean {
  if (kind?.type === 'INTEGER') return !kind.isSigned && (bits === undefined || kind.bitWidth === bits);
  return bits === undefined ? old?.startsWith('UINT_') === true : old === `UINT_${bits}`;
}

/** Nanoseconds since 1970 of a moment in the old form: a day and nanoseconds of it. */
export function nanosOf(value: bigint): bigint {
  const day = (value >> 64n) - 2_440_588n;
  return day * 86_400_000_000_000n + (value & 0xffff_ffff_ffff_ffffn);
}

/** Tells whether 64 bits hold the nanoseconds of a moment in the old form. */
export function isWrittenAsNanos(value: bigint): boolean {
  const nanos = nanosOf(value);
  return BigInt.asIntN(64, nanos) === nanos;
}

function isText({ type, converted_type: old, logical_type: kind }: SchemaElement): boolean {
  return (
    type === 'BYTE_ARRAY' &&
    (old === 'UTF8' ||
      old === 'ENUM' ||
      old === 'JSON' ||
      kind?.type === 'STRING' ||
      kind?.type === 'ENUM' ||
      kind?.type === 'JSON')
  );
}

/** Bytes of a text that are read between two moments at which others may have their turn. */
const PIECE_BYTES = 2 ** 20;

/**
 * The slots of a column with texts in the place of bytes that take their time to be read.
 * @throws Error for bytes that are no UTF-8
 */
export async function withLongTexts(
  { leaves }: Column,
  slots: readonly Slots[],
  turns: Turns,
): Promise<readonly Slots[]> {
  const read: Slots[] = [];
  for (const [at, slot] of slots.entries()) {
    const element = leaves[at]?.element;
    const isLong = (value: unknown): value is Uint8Array => value instanceof Uint8Array && value.length > PIECE_BYTES;
    if (element === undefined || !isText(element) || !Array.prototype.some.call(slot.values, isLong)) {
      read.push(slot);
      continue;
    }
    const values = Array.from(slot.values);
    for (const [place, value] of values.entries())
      if (isLong(value)) values[place] = await decodedInTurns(value, turns);
    read.push({ ...slot, values });
  }
  return read;
}

async function decodedInTurns(bytes: Uint8Array, turns: Turns): Promise<string> {
  const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });
  // V8 keeps the pieces as they are until somebody goes through all of it, which nobody does with what is too long for
  // a model: to put 60 MiB together takes it 80 ms.
  let text = '';
  for (let from = 0; from < bytes.length; from += PIECE_BYTES) {
    if (turns.due) await turns.give();
    const piece = bytes.subarray(from, from + PIECE_BYTES);
    text += decoded(decoder, piece, { stream: from + PIECE_BYTES < bytes.length });
  }
  return text;
}

function textOf(value: Uint8Array | string): string {
  return typeof value === 'string' ? value : decoded(utf8, value);
}

function decoded(
  decoder: InstanceType<typeof TextDecoder>,
  bytes: Uint8Array,
  options?: { readonly stream: boolean },
): string {
  try {
    return decoder.decode(bytes, options);
  } catch (error) {
    throw new Error(
      `found bytes that are no UTF-8 in a column of text (${Buffer.from(bytes.subarray(0, 16)).toString('hex')}…), expected UTF-8`,
      { cause: error },
    );
  }
}

function bigOf(bytes: Uint8Array): bigint {
  return bytes.length === 0 ? 0n : BigInt.asIntN(bytes.length * 8, BigInt(`0x${Buffer.from(bytes).toString('hex')}`));
}
