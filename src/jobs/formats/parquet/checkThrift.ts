import { PARQUET_LIMITS } from '../../../model/files/limits.js';

const VARINT_BYTES = 10;

/**
 * Walks over a structure in Thrift's compact protocol, which is what footers and page headers are in, without making
 * anything of it: what hyparquet then reads is no longer than what is there, no deeper than the limit, and of no more
 * values.
 * @returns where it ends
 * @throws Error in words, for one that is none, goes on after the end, or exceeds a limit
 */
export function checkThrift(bytes: Uint8Array, start = 0): number {
  let at = start;
  let values = 0;

  const byte = (): number => {
    const value = bytes[at];
    if (value === undefined) throw new Error('a header goes on after its end');
    at += 1;
    return value;
  };
  const skip = (count: number): void => {
    if (count > bytes.length - at)
      throw new Error(`a header holds a value of ${count} bytes, of which ${bytes.length - at} are there`);
    at += count;
  };
  const varint = (): number => {
    let value = 0;
    for (let length = 0; length < VARINT_BYTES; length += 1) {
      const next = byte();
      value += (next & 0x7f) * 2 ** (7 * length);
      if (next < 0x80) return value;
    }
    throw new Error(`a header holds a number of more than ${VARINT_BYTES} bytes`);
  };
  const list = (depth: number): void => {
    const head = byte();
    const size = head >> 4 === 15 ? varint() : head >> 4;
    // Each takes a byte at least.
    if (size > bytes.length - at)
      throw new Error(`a header holds a list of ${size} values in ${bytes.length - at} bytes`);
    for (let left = size; left > 0; left -= 1) value(head & 0x0f, depth + 1, true);
  };
  const struct = (depth: number): void => {
    for (let head = byte(); (head & 0x0f) !== 0; head = byte()) {
      if (head >> 4 === 0) varint();
      value(head & 0x0f, depth + 1, false);
    }
  };
  const value = (type: number, depth: number, inList: boolean): void => {
    values += 1;
    if (values > PARQUET_LIMITS.headerValues)
      throw new Error(`a header holds more than ${PARQUET_LIMITS.headerValues} values`);
    if (depth > PARQUET_LIMITS.depth) throw new Error(`a header is more than ${PARQUET_LIMITS.depth} structures deep`);
    if (type === 1 || type === 2) skip(inList ? 1 : 0);
    else if (type === 3) skip(1);
    else if (type >= 4 && type <= 6) varint();
    else if (type === 7) skip(8);
    else if (type === 8) skip(varint());
    else if (type === 9) list(depth);
    else if (type === 12) struct(depth);
    else throw new Error(`a header holds a value of the unknown kind ${type}`);
  };
  struct(0);
  return at;
}
