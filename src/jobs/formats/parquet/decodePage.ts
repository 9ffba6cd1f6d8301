import type { DecodedArray, SchemaElement } from 'hyparquet';
import { deltaBinaryUnpack, deltaByteArray, deltaLengthByteArray } from 'hyparquet/src/delta.js';
import { byteStreamSplit } from 'hyparquet/src/encoding.js';
import { PARQUET_LIMITS } from '../../../model/files/limits.js';
import { checkPlain } from './plainValues.js';

/** Where values or levels are read. */
export interface PageReader {
  readonly view: DataView<ArrayBuffer>;
  offset: number;
}

/**
 * Values of the encodings that are decoded as a whole: numbers, bigints, bytes, which may be views of the page. @throws
 * Error in words
 */
export function readValues(
  reader: PageReader,
  encoding: string,
  count: number,
  { type, type_length: fixed }: SchemaElement,
): DecodedArray {
  switch (encoding) {
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
      checkPlain(reader.view.byteLength - reader.offset, String(type), count, fixed);
      return byteStreamSplit(reader, count, type ?? 'INT32', fixed);
  }
  throw new Error(`values of the type ${String(type)} are encoded as ${encoding}, which is not supported`);
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
