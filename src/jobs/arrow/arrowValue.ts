import { base64, dateOf, decimal, timeOf, timestampOf, whole, type TimeUnit } from '../formats/columnText.js';
import { ARROW_TYPE as TYPE, type ArrowType, type ArrowVector } from './ArrowBatch.js';

const DAY_MILLISECONDS = 86_400_000;
/** `TimeUnit` of the format, and how many of ours one is: Parquet has no seconds, and writes thousandths. */
const UNITS: readonly (readonly [unit: TimeUnit, factor: bigint])[] = [['MILLIS', 1_000n], ['MILLIS', 1n], ['MICROS', 1n], ['NANOS', 1n]];
const MILLISECOND_NANOS = 1e6;

/**
 * The value of a row of a column as JSON can hold it, as of Parquet: numbers that are too large, decimals, dates and times as text, bytes as base64; lists and structures as such.
 * @throws Error for a type that has no words
 */
export function arrowValue(vector: ArrowVector, row: number): unknown {
  const { type } = vector;
  const value = vector.get(row);
  if (value === null || value === undefined) return null;
  // What the package makes of moments has lost digits: it counts milliseconds in doubles.
  if (type.typeId === TYPE.timestamp) return inUnit(stored(vector, row), type, (moment, unit) => timestampOf(moment, unit, isUtc(type)));
  if (type.typeId === TYPE.struct) return structure(type, (at) => childValue(vector.getChildAt(at), row));
  return plainValue(value, type);
}

function childValue(child: ArrowVector | null, row: number): unknown {
  return child === null ? null : arrowValue(child, row);
}

function structure({ children }: ArrowType, valueOf: (at: number) => unknown): object {
  return Object.fromEntries((children ?? []).map(({ name }, at) => [name, valueOf(at)]));
}

/** A value as the package gives it. */
function plainValue(value: unknown, type: ArrowType): unknown {
  if (value === null || value === undefined) return null;
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
    case TYPE.timestamp:
      return timestampOf(BigInt(Math.round((value as number) * MILLISECOND_NANOS)), 'NANOS', isUtc(type));
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
      return structure(type, (at) => plainValue(...memberOf(value, type, at)));
    case TYPE.map: {
      const [entry] = type.children ?? [];
      const of = entry?.type.children?.[1]?.type;
      return Object.fromEntries(Array.from(value as Iterable<readonly [unknown, unknown]>, ([name, each]) => [String(name), of ? plainValue(each, of) : null]));
    }
    case TYPE.dictionary:
      if (type.dictionary) return plainValue(value, type.dictionary);
  }
  throw new Error(`found values of the type ${type.toString()}, expected numbers, text, bytes, dates, times, and lists and structures of them`);
}

function memberOf(value: unknown, { children }: ArrowType, at: number): readonly [unknown, ArrowType] {
  const { name = '', type = { typeId: TYPE.null } } = children?.[at] ?? {};
  return [(value as Readonly<Record<string, unknown>>)[name], type];
}

function isUtc({ timezone }: ArrowType): boolean {
  return (timezone ?? '') !== '';
}

function inUnit(value: bigint, { unit = 1 }: ArrowType, textOf: (value: bigint, unit: TimeUnit) => string): string {
  const known = UNITS[unit];
  if (known === undefined) throw new Error(`found times in units of the kind ${unit}, expected one of 0 to ${UNITS.length - 1}`);
  return textOf(value * known[1], known[0]);
}

/** As it stands in memory. A vector of a batch, or of a value, is one piece. */
function stored({ data: [piece] }: ArrowVector, row: number): bigint {
  return (piece?.values as BigInt64Array | undefined)?.[row] ?? 0n;
}

/** A whole number of 32-bit words, the lowest first, in two's complement. */
function wordsOf(words: Uint32Array): bigint {
  const value = Array.from(words).reduceRight((sum, word) => (sum << 32n) | BigInt(word >>> 0), 0n);
  return BigInt.asIntN(32 * words.length, value);
}
