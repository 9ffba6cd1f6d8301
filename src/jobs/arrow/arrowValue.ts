import {
  base64,
  DAY_MILLISECONDS,
  dateOf,
  decimal,
  timeOf,
  timestampOf,
  whole,
  type TimeUnit,
} from '../formats/columnText.js';
import { ARROW_TYPE as TYPE, type ArrowType, type ArrowVector } from './ArrowBatch.js';

/** `TimeUnit` of the format, and how many of ours one is: Parquet has no seconds, and writes thousandths. */
const UNITS: readonly (readonly [unit: TimeUnit, factor: bigint])[] = [
  ['MILLIS', 1_000n],
  ['MILLIS', 1n],
  ['MICROS', 1n],
  ['NANOS', 1n],
];

/**
 * The value of a row of a column as JSON can hold it, as of Parquet: numbers that are too large, decimals, dates and
 * times as text, bytes as base64; lists and structures as such.
 * @throws Error for a type that has no words
 */
export function arrowValue(vector: ArrowVector, row: number): unknown {
  const value = vector.get(row);
  if (value === null || value === undefined) return null;
  const { type } = vector;
  switch (type.typeId) {
    case TYPE.text:
    case TYPE.largeText:
    case TYPE.textView:
    case TYPE.boolean:
      return value;
    case TYPE.float:
      return typeof value === 'number' && !Number.isFinite(value) ? String(value) : value;
    case TYPE.integer:
    case TYPE.duration:
      return typeof value === 'bigint' ? whole(value) : value;
    case TYPE.decimal:
      return decimal(wordsOf(value as Uint32Array), type.scale ?? 0);
    case TYPE.date:
      return dateOf(Math.floor(Number(value) / DAY_MILLISECONDS));
    case TYPE.time:
      return inUnit(BigInt(value as number | bigint), type, timeOf);
    // What the package makes of moments has lost digits: it counts milliseconds in doubles.
    case TYPE.timestamp:
      return inUnit(BigInt(stored(vector, row)), type, (moment, unit) =>
        timestampOf(moment, unit, (type.timezone ?? '') !== ''),
      );
    case TYPE.binary:
    case TYPE.largeBinary:
    case TYPE.fixedBinary:
    case TYPE.binaryView:
      return base64(value as Uint8Array);
    case TYPE.list:
    case TYPE.largeList:
    case TYPE.fixedList: {
      const list = value as ArrowVector;
      return Array.from({ length: list.length }, (_, at) => arrowValue(list, at));
    }
    case TYPE.struct:
      return Object.fromEntries(
        (type.children ?? []).map(({ name }, at) => [name, childValue(vector.getChildAt(at), row)]),
      );
    case TYPE.map:
      return mapValue(vector, row);
    case TYPE.dictionary:
      return childValue(pieceOf(vector, row).piece.dictionary, Number(stored(vector, row)));
    default:
      throw new Error(
        `found values of the type ${type.toString()}, expected numbers, text, bytes, dates, times, and lists and structures of them`,
      );
  }
}

function childValue(child: ArrowVector | null | undefined, row: number): unknown {
  return child ? arrowValue(child, row) : null;
}

function mapValue(vector: ArrowVector, row: number): object {
  const { piece, at } = pieceOf(vector, row);
  const [from = 0, to = 0] = (piece.valueOffsets as Int32Array).subarray(at, at + 2);
  const entries = vector.getChildAt(0);
  const [names, values] = [entries?.getChildAt(0), entries?.getChildAt(1)];
  return Object.fromEntries(
    Array.from({ length: to - from }, (_, entry) => [
      String(childValue(names, from + entry)),
      childValue(values, from + entry),
    ]),
  );
}

function inUnit(value: bigint, { unit = 1 }: ArrowType, textOf: (value: bigint, unit: TimeUnit) => string): string {
  const known = UNITS[unit];
  if (known === undefined)
    throw new Error(`found times in units of the kind ${unit}, expected one of 0 to ${UNITS.length - 1}`);
  return textOf(value * known[1], known[0]);
}

/** As it stands in memory. */
function stored(vector: ArrowVector, row: number): bigint | number {
  const { piece, at } = pieceOf(vector, row);
  return (piece.values as ArrayLike<bigint | number>)[at] ?? 0;
}

function pieceOf(
  { data }: ArrowVector,
  row: number,
): { readonly piece: ArrowVector['data'][number]; readonly at: number } {
  let at = row;
  for (const piece of data) {
    if (at < piece.length) return { piece, at };
    at -= piece.length;
  }
  throw new Error(`found ${row - at} rows, expected ${row + 1} at least`);
}

/** A whole number of 32-bit words, the lowest first, in two's complement. */
function wordsOf(words: Uint32Array): bigint {
  const value = Array.from(words).reduceRight((sum, word) => (sum << 32n) | BigInt(word >>> 0), 0n);
  return BigInt.asIntN(32 * words.length, value);
}
