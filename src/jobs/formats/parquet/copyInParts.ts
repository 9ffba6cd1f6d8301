import type { Work } from '../../../collections/drained.js';

/** Bytes that are copied between two moments at which others may have their turn: memory is new, and takes its time. */
const PART_BYTES = 2 ** 22;

/** Copies bytes to a place of others, and stops on the way through many. */
export function* copyInParts(from: Uint8Array, to: Uint8Array, at = 0): Work<void> {
  for (let start = 0; start < from.length; start += PART_BYTES) {
    if (start > 0) yield;
    to.set(from.subarray(start, start + PART_BYTES), at + start);
  }
}

/** Bytes in memory of their own. */
export function* copiedInParts(bytes: Uint8Array): Work<Uint8Array> {
  const copy = new Uint8Array(bytes.length);
  yield* copyInParts(bytes, copy);
  return copy;
}
