import * as crypto from 'node:crypto';
import * as zlib from 'node:zlib';

/**
 * A record: marker (8 bytes), length of the payload (32 bits, little-endian), CRC-32 of length and key, the first 16
 * bytes of the SHA-256 of key and payload, key (32 bytes), payload.
 *
 * No byte of the marker is one of UTF-8, which payloads are: a marker inside a payload is a sign of damage.
 */
export const MARKER = Buffer.from([0xff, 0xfe, 0xf5, 0xfa, 0xc1, 0xf8, 0xc0, 0xfd]);
export const KEY_BYTES = 32;
/** Bytes that stand before the payload. */
export const HEAD_BYTES = 64;
/**
 * Larger records are neither written nor read: an answer of 100,000 tokens takes some 2 MiB, and its log-probabilities,
 * with 5 alternatives, 16.
 */
export const MOST_RECORD_BYTES = 64 * 2 ** 20;

const [LENGTH_AT, HEAD_CHECK_AT, CHECK_AT, KEY_AT] = [8, 12, 16, 32];

/** Undefined for a payload that is too long. @param key 32 bytes */
export function encodeRecord(key: Buffer, payload: Buffer): Buffer | undefined {
  const bytes = HEAD_BYTES + payload.length;
  if (bytes > MOST_RECORD_BYTES) return undefined;
  const record = Buffer.allocUnsafe(bytes);
  MARKER.copy(record);
  record.writeUInt32LE(payload.length, LENGTH_AT);
  key.copy(record, KEY_AT);
  payload.copy(record, HEAD_BYTES);
  record.writeUInt32LE(headCheck(record), HEAD_CHECK_AT);
  bodyCheck(record).copy(record, CHECK_AT);
  return record;
}

/**
 * How long the record is that begins with these bytes, by its head, which has a check of its own: a damaged length asks
 * for nothing. Undefined where no record begins.
 * @param head at least 64 bytes
 */
export function recordBytes(head: Buffer): number | undefined {
  if (!head.subarray(0, MARKER.length).equals(MARKER)) return undefined;
  const bytes = HEAD_BYTES + head.readUInt32LE(LENGTH_AT);
  return bytes <= MOST_RECORD_BYTES && head.readUInt32LE(HEAD_CHECK_AT) === headCheck(head) ? bytes : undefined;
}

/** Tells whether a record is as it was written. @param record all of it, as long as `recordBytes` says */
export function isWhole(record: Buffer): boolean {
  return bodyCheck(record).equals(record.subarray(CHECK_AT, KEY_AT));
}

export function keyOf(record: Buffer): Buffer {
  return record.subarray(KEY_AT, HEAD_BYTES);
}

export function payloadOf(record: Buffer): Buffer {
  return record.subarray(HEAD_BYTES);
}

function headCheck(head: Buffer): number {
  return zlib.crc32(head.subarray(KEY_AT, HEAD_BYTES), head.readUInt32LE(LENGTH_AT));
}

function bodyCheck(record: Buffer): Buffer {
  return crypto.hash('sha256', record.subarray(KEY_AT), 'buffer').subarray(0, KEY_AT - CHECK_AT);
}
