import type { PageBytes } from './PageBytes.js';

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

/** Looks whether there can be so many values as they are. @throws Error in words */
export function checkPlain(bytes: number, type: string, count: number, fixed = 0): void {
  const size = type === 'FIXED_LEN_BYTE_ARRAY' ? fixed : (PLAIN_BYTES[type] ?? 0);
  if (size === 0 || Math.ceil(count * size) > bytes) throw new Error(`a page says ${count} values in ${bytes} bytes`);
}

/** The n-th of values of a fixed length that stand one after another. */
export function fixedValue(page: PageBytes, start: number, type: string, fixed = 0): (nth: number) => unknown {
  switch (type) {
    case 'BOOLEAN':
      return (nth) => ((page.bytes[start + (nth >>> 3)] ?? 0) & (1 << (nth & 7))) !== 0;
    case 'INT32':
      return (nth) => page.view.getInt32(start + 4 * nth, true);
    case 'INT64':
      return (nth) => page.view.getBigInt64(start + 8 * nth, true);
    case 'INT96':
      return (nth) =>
        (BigInt(page.view.getInt32(start + 12 * nth + 8, true)) << 64n) |
        page.view.getBigUint64(start + 12 * nth, true);
    case 'FLOAT':
      return (nth) => page.view.getFloat32(start + 4 * nth, true);
    case 'DOUBLE':
      return (nth) => page.view.getFloat64(start + 8 * nth, true);
    case 'FIXED_LEN_BYTE_ARRAY':
      return (nth) => page.bytes.slice(start + fixed * nth, start + fixed * (nth + 1));
    default:
      throw new Error(`values of the type ${type}, which is not supported`);
  }
}

/** How long the bytes are before which that stands. @throws Error where they are not all there */
export function lengthAt({ bytes, view }: PageBytes, offset: number): number {
  const there = bytes.length - offset - 4;
  const length = there < 0 ? 0 : view.getUint32(offset, true);
  if (there < length) throw new Error(`a value of ${length} bytes where ${Math.max(0, there)} are left`);
  return length;
}
