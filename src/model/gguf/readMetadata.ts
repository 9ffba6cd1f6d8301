import { HEADER_LIMITS } from '../files/limits.js';
import { printable } from '../files/printable.js';
import type { GgufReader } from './GgufReader.js';

type NumericArray =
  | Uint8Array
  | Int8Array
  | Uint16Array
  | Int16Array
  | Uint32Array
  | Int32Array
  | Float32Array
  | Float64Array
  | BigUint64Array
  | BigInt64Array;

interface NumericType {
  readonly bytes: number;
  readonly read: (reader: GgufReader) => number | bigint;
  /** Arrays are copied as they stand: files are little-endian, and so is every platform that the package supports. */
  readonly array: new (length: number) => NumericArray;
}

/** GGUF's value types by number; three more have code of their own. */
const NUMERIC_TYPES: ReadonlyMap<number, NumericType> = new Map<number, NumericType>([
  [0, { bytes: 1, read: (r) => r.uint8(), array: Uint8Array }],
  [1, { bytes: 1, read: (r) => r.int8(), array: Int8Array }],
  [2, { bytes: 2, read: (r) => r.uint16(), array: Uint16Array }],
  [3, { bytes: 2, read: (r) => r.int16(), array: Int16Array }],
  [4, { bytes: 4, read: (r) => r.uint32(), array: Uint32Array }],
  [5, { bytes: 4, read: (r) => r.int32(), array: Int32Array }],
  [6, { bytes: 4, read: (r) => r.float32(), array: Float32Array }],
  [10, { bytes: 8, read: (r) => r.uint64(), array: BigUint64Array }],
  [11, { bytes: 8, read: (r) => r.int64(), array: BigInt64Array }],
  [12, { bytes: 8, read: (r) => r.float64(), array: Float64Array }],
]);
const BOOL = 7;
const STRING = 8;
const ARRAY = 9;

/** Rough cost in memory of what is not plain bytes. */
const STRING_COST = 32;
const ARRAY_COST = 200;
const PAIR_COST = 100;

/**
 * Reads `count` key-value pairs.
 * @returns values by key. Numbers; 64-bit integers beyond 2^53 as bigint; strings; booleans; arrays of numbers as typed
 * arrays (64-bit
 *   integers: BigInt64Array, BigUint64Array), other arrays as plain ones
 */
export async function readMetadata(reader: GgufReader, count: number): Promise<Map<string, unknown>> {
  const metadata = new Map<string, unknown>();
  for (let i = 0; i < count; i++) {
    reader.budget.charge(PAIR_COST);
    const key = await readName(reader, `key ${i + 1} of ${count} in the metadata`);
    const field = `metadata ${printable(key)}`;
    if (metadata.has(key)) reader.fail(field, 'the key a second time', 'every key once');
    await reader.need(4, field);
    metadata.set(key, await readValue(reader, reader.uint32(), field));
  }
  return metadata;
}

/** A key or the name of a tensor: UTF-8, not empty, of bounded length. */
export async function readName(reader: GgufReader, field: string): Promise<string> {
  const bytes = await readLength(reader, field, HEADER_LIMITS.nameBytes);
  if (bytes === 0) reader.fail(field, 'an empty name', 'a name');
  if (!reader.isText(bytes)) reader.fail(field, 'a name that is no UTF-8', 'UTF-8 text');
  return reader.text(bytes);
}

/** Reads the length of a string and makes the string's bytes readable. */
async function readLength(reader: GgufReader, field: string, limit: number): Promise<number> {
  if (reader.buffered < 8) await reader.need(8, field);
  const bytes = reader.uint64();
  if (bytes > limit || bytes > reader.remaining) {
    reader.fail(
      field,
      `a string of ${bytes} bytes at offset ${reader.position}`,
      `at most ${Math.min(limit, reader.remaining)} bytes`,
    );
  }
  reader.budget.charge(STRING_COST + Number(bytes));
  if (reader.buffered < bytes) await reader.need(Number(bytes), field);
  return Number(bytes);
}

async function readValue(reader: GgufReader, type: number, field: string): Promise<unknown> {
  const numeric = NUMERIC_TYPES.get(type);
  if (numeric) {
    await reader.need(numeric.bytes, field);
    return numeric.read(reader);
  }
  if (type === BOOL) {
    await reader.need(1, field);
    return readBoolean(reader, field);
  }
  if (type === STRING) return reader.text(await readLength(reader, field, HEADER_LIMITS.stringBytes));
  if (type === ARRAY) return readArray(reader, field, 1);
  return reader.fail(field, `the unknown value type ${type}`, 'a type from 0 to 12');
}

function readBoolean(reader: GgufReader, field: string): boolean {
  const value = reader.uint8();
  if (value > 1) reader.fail(field, `the byte ${value} as a boolean`, '0 or 1');
  return value === 1;
}

async function readArray(reader: GgufReader, field: string, depth: number): Promise<unknown> {
  if (depth > HEADER_LIMITS.arrayDepth)
    reader.fail(field, `arrays nested more than ${HEADER_LIMITS.arrayDepth} deep`, 'fewer levels');
  await reader.need(12, field);
  const type = reader.uint32();
  const count = reader.uint64();
  const numeric = NUMERIC_TYPES.get(type);
  // What one element takes at least: a string has its length, an array its type and count.
  const elementBytes = numeric?.bytes ?? { [BOOL]: 1, [STRING]: 8, [ARRAY]: 12 }[type];
  if (elementBytes === undefined)
    return reader.fail(field, `an array of the unknown value type ${type}`, 'a type from 0 to 12');
  if (typeof count === 'bigint' || count > Math.floor(reader.remaining / elementBytes)) {
    return reader.fail(
      field,
      `an array of ${count} elements at offset ${reader.position}`,
      `at most ${Math.floor(reader.remaining / elementBytes)}, as the file has ${reader.remaining} bytes left`,
    );
  }
  reader.budget.charge(ARRAY_COST + count * (numeric?.bytes ?? 8));
  if (numeric) {
    const values = new numeric.array(count);
    await reader.fill(new Uint8Array(values.buffer));
    return values;
  }
  if (type === STRING) return readStrings(reader, count, field);
  const values: unknown[] = [];
  for (let i = 0; i < count; i++) {
    if (type === ARRAY) {
      values.push(await readArray(reader, field, depth + 1));
    } else {
      if (reader.buffered < 1) await reader.need(1, field);
      values.push(readBoolean(reader, field));
    }
  }
  return values;
}

/** The hot loop: `readLength` without a promise a string, and without a field name that nobody will read. */
async function readStrings(reader: GgufReader, count: number, field: string): Promise<string[]> {
  const values: string[] = [];
  for (let i = 0; i < count; i++) {
    if (reader.buffered < 8) await reader.need(8, `${field}[${i}]`);
    const bytes = reader.uint64();
    if (bytes > HEADER_LIMITS.stringBytes || bytes > reader.remaining) {
      reader.fail(
        `${field}[${i}]`,
        `a string of ${bytes} bytes`,
        `at most ${Math.min(HEADER_LIMITS.stringBytes, reader.remaining)} bytes`,
      );
    }
    reader.budget.charge(STRING_COST + Number(bytes));
    if (reader.buffered < bytes) await reader.need(Number(bytes), `${field}[${i}]`);
    values.push(reader.text(Number(bytes)));
  }
  return values;
}
