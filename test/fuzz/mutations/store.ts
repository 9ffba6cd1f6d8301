import type { Random } from '../Random.js';
import { number, wholeNumber } from './values.js';

/** Where the table of a store ends: after magic and version. See native/model/StoreFormat.cpp. */
const TABLE_BYTES_AT = 12;

/**
 * A repacked model with something wrong about it; where that is in its table, the table's checksum fits nevertheless.
 */
export function damagedStore(random: Random, store: Buffer): Buffer {
  const bytes = Buffer.from(store);
  if (bytes.length < 64) return bytes;
  const tableBytes = Math.min(bytes.readUInt32LE(TABLE_BYTES_AT), bytes.length);
  return random.weighted<() => Buffer>([
    [
      6,
      () => {
        // A number of the table, and the checksum made to fit.
        for (const at of random.list(1, 3, () => 8 + 4 * random.below(Math.max(1, (tableBytes - 20) / 4))))
          bytes.writeUInt32LE(
            random.chance(0.7)
              ? Number(wholeNumber(random) & 0xffff_ffffn)
              : Math.abs(Math.trunc(number(random))) % 2 ** 32,
            at,
          );
        const end = bytes.readUInt32LE(TABLE_BYTES_AT) - 4;
        if (end > 0 && end + 4 <= bytes.length) bytes.writeUInt32LE(crc32c(bytes.subarray(0, end)), end);
        return bytes;
      },
    ],
    [
      2,
      () => {
        const at = random.below(bytes.length);
        bytes[at] = (bytes[at] ?? 0) ^ (1 << random.below(8));
        return bytes;
      },
    ],
    [2, () => bytes.subarray(0, random.below(bytes.length))],
    [1, () => Buffer.concat([bytes, Buffer.alloc(1 + random.below(4096))])],
    [1, () => bytes.fill(random.below(256), random.below(bytes.length))],
  ])();
}

const TABLE = Uint32Array.from({ length: 256 }, (_, index) => {
  let value = index;
  for (let bit = 0; bit < 8; bit++) value = value & 1 ? (value >>> 1) ^ 0x82f63b78 : value >>> 1;
  return value;
});

/** CRC-32C, as stores have it. */
function crc32c(bytes: Uint8Array): number {
  let crc = 0xffffffff;
  for (const byte of bytes) crc = (crc >>> 8) ^ (TABLE[(crc ^ byte) & 0xff] ?? 0);
  return (crc ^ 0xffffffff) >>> 0;
}
