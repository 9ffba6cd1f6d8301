import type { DecodedArray, SchemaElement } from 'hyparquet';
import { deltaBinaryUnpack, deltaByteArray, deltaLengthByteArray } from 'hyparquet/src/delta.js';
import { byteStreamSplit, readRleBitPackedHybrid } from 'hyparquet/src/encoding.js';
import { readPlain } from 'hyparquet/src/plain.js';
import { PARQUET_LIMITS } from '../../../model/files/limits.js';

/** Where values or levels are read. */
export interface PageReader {
  readonly view: DataView<ArrayBuffer>;
  offset: number;
}

/** Least bytes of a value as it is. */
const PLAIN_BYTES: Readonly<Record<string, number>> = {
  BOOLEAN: 1 / 8,
  INT32: 4,
  INT64: 8,
  INT96: 12,
  FLOAT: 4,
  DOUBLE: 8,
  BYTE_ARRAY: 4,
};

export function readerOf(bytes: Uint8Array<ArrayBuffer>): PageReader {
  return { view: new DataView(bytes.buffer, bytes.byteOffset, bytes.length), offset: 0 };
}

/**
 * Levels that say what of a value is there, or where a list goes on.
 * @param most the highest level
 * @param length of them in bytes; undefined where it stands in front
 */
export function readLevels(reader: PageReader, count: number, most: number, length?: number): number[] {
  const bytes = length ?? takeLength(reader);
  const end = reader.offset + bytes;
  const levels = readRuns(reader, bytes, widthOf(most), count);
  if (levels.some((level) => level > most)) {
    throw new Error(
      `a level is ${Math.max(...levels.filter((level) => level > most).slice(0, 1))}, expected at most ${most}`,
    );
  }
  reader.offset = end;
  return levels;
}

/** Values as they are stored: numbers, bigints, bytes. @param dictionary what numbers stand for where a page says so */
export function readValues(
  reader: PageReader,
  encoding: string,
  count: number,
  { type, type_length: fixed }: SchemaElement,
  dictionary: DecodedArray | undefined,
): DecodedArray {
  if (type === undefined) throw new Error('a column has no type');
  if (count === 0) return [];
  const left = reader.view.byteLength - reader.offset;
  switch (encoding) {
    case 'PLAIN':
      checkRoom(count, fixed !== undefined && type === 'FIXED_LEN_BYTE_ARRAY' ? fixed : (PLAIN_BYTES[type] ?? 0), left);
      return readPlain(reader, type, count, fixed);
    case 'PLAIN_DICTIONARY':
    case 'RLE_DICTIONARY': {
      const width = reader.view.getUint8(reader.offset++);
      return valuesOf(readRuns(reader, left - 1, width, count), dictionary);
    }
    case 'RLE':
      if (type !== 'BOOLEAN') break;
      return readRuns(reader, takeLength(reader), 1, count).map((bit) => bit === 1);
    case 'DELTA_BINARY_PACKED': {
      if (type !== 'INT32' && type !== 'INT64') break;
      checkDelta(reader);
      const numbers = type === 'INT32' ? new Int32Array(count) : new BigInt64Array(count);
      deltaBinaryUnpack(reader, count, numbers);
      return numbers;
    }
    case 'DELTA_LENGTH_BYTE_ARRAY': {
      if (type !== 'BYTE_ARRAY') break;
      checkDelta(reader);
      const values = new Array<Uint8Array>(count);
      deltaLengthByteArray(reader, count, values);
      return values;
    }
    case 'DELTA_BYTE_ARRAY': {
      if (type !== 'BYTE_ARRAY' && type !== 'FIXED_LEN_BYTE_ARRAY') break;
      checkPrefixes(reader, count);
      const values = new Array<Uint8Array>(count);
      deltaByteArray(reader, count, values);
      if (type === 'FIXED_LEN_BYTE_ARRAY' && values.some(({ length }) => length !== fixed)) {
        throw new Error(`a value has other than ${fixed} bytes`);
      }
      return values;
    }
    case 'BYTE_STREAM_SPLIT':
      checkRoom(count, type === 'FIXED_LEN_BYTE_ARRAY' ? (fixed ?? 0) : (PLAIN_BYTES[type] ?? 0), left);
      return byteStreamSplit(reader, count, type, fixed);
  }
  throw new Error(`values of the type ${type} are encoded as ${encoding}, which is not supported`);
}

function valuesOf(indexes: readonly number[], dictionary: DecodedArray | undefined): unknown[] {
  const size = dictionary?.length ?? 0;
  return indexes.map((index) => {
    if (dictionary === undefined || index < 0 || index >= size)
      throw new Error(`a value is number ${index} of a dictionary of ${size}`);
    return dictionary[index] as unknown;
  });
}

function checkRoom(count: number, bytes: number, left: number): void {
  if (bytes === 0 || Math.ceil(count * bytes) > left) throw new Error(`a page says ${count} values in ${left} bytes`);
}

function takeLength(reader: PageReader): number {
  const length = reader.view.getUint32(reader.offset, true);
  reader.offset += 4;
  return length;
}

/**
 * Runs of one value, and values packed into bits. A run that is longer than what it is part of would be written out all
 * the same.
 */
function readRuns(reader: PageReader, length: number, width: number, count: number): number[] {
  if (width > 31) throw new Error(`numbers have ${width} bits, expected at most 31`);
  const end = reader.offset + length;
  if (length < 0 || end > reader.view.byteLength)
    throw new Error(`runs of ${length} bytes in ${reader.view.byteLength - reader.offset}`);
  const output = new Array<number>(count).fill(0);
  if (width === 0) return output;
  const walk = { view: reader.view, offset: reader.offset };
  for (let seen = 0; seen < count;) {
    const header = varint(walk, end);
    const run = header % 2 === 1 ? (header >>> 1) * 8 : header >>> 1;
    const wanted = Math.min(run, count - seen);
    const bytes = header % 2 === 1 ? Math.ceil((wanted * width) / 8) : (width + 7) >> 3;
    if (header % 2 === 0 && run > count - seen)
      throw new Error(`a run of ${run} values, expected at most ${count - seen}`);
    if (walk.offset + bytes > end) throw new Error(`runs of ${length} bytes end before their ${count} values`);
    walk.offset += header % 2 === 1 ? (header >>> 1) * width : bytes;
    seen += wanted;
  }
  readRleBitPackedHybrid(reader, width, output, length);
  return output;
}

function varint(reader: PageReader, end: number): number {
  let value = 0;
  for (let shift = 0; shift < 32 && reader.offset < end; shift += 7) {
    const byte = reader.view.getUint8(reader.offset++);
    value += (byte & 0x7f) * 2 ** shift;
    if (byte < 0x80) {
      if (value >= 2 ** 31) break;
      return value;
    }
  }
  throw new Error('a number is longer than it may be');
}

/** Blocks as writers make them hold some hundreds of values. */
function checkDelta({ view, offset }: PageReader): void {
  const walk = { view, offset };
  const [block, parts] = [varint(walk, view.byteLength), varint(walk, view.byteLength)];
  if (block === 0 || parts === 0 || block > 2 ** 20 || parts > block || block % parts !== 0) {
    throw new Error(`differences in blocks of ${block} values in ${parts} parts`);
  }
}

/** Values that begin as the one before does: a few bytes can stand for any length, so the sum is taken first. */
function checkPrefixes({ view, offset }: PageReader, count: number): void {
  const walk = { view, offset };
  const [prefixes, suffixes] = [new Int32Array(count), new Int32Array(count)];
  for (const lengths of [prefixes, suffixes]) {
    checkDelta(walk);
    deltaBinaryUnpack(walk, count, lengths);
  }
  let before = 0;
  let sum = 0;
  for (const [at, prefix] of prefixes.entries()) {
    const suffix = suffixes[at] ?? 0;
    if (prefix < 0 || prefix > before || suffix < 0) {
      throw new Error(`a value begins with ${prefix} bytes of one of ${before}, and has ${suffix} of its own`);
    }
    before = prefix + suffix;
    sum += before;
    if (sum > PARQUET_LIMITS.pageBytes)
      throw new Error(`the values of a page have more than ${PARQUET_LIMITS.pageBytes} bytes`);
  }
}

function widthOf(most: number): number {
  return 32 - Math.clz32(most);
}
