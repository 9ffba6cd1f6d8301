/**
 * A page, decompressed. It may be let go of, and be put back where what reads it goes on: offsets in it stay what they
 * are.
 */
export class PageBytes {
  bytes = new Uint8Array();
  view = new DataView(this.bytes.buffer);

  constructor(bytes: Uint8Array<ArrayBuffer>) {
    this.put(bytes);
  }

  put(bytes: Uint8Array<ArrayBuffer>): void {
    this.bytes = bytes;
    this.view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  }

  drop(): void {
    this.put(new Uint8Array());
  }
}

/** Values of more bytes are handed over as views of their page. */
const LONG_BYTES = 2 ** 20;

/**
 * The bytes of a value, in memory of their own; of a long one, whose copy would take its time, a view of its page,
 * which `isForeign` tells.
 */
export function valueOf(bytes: Uint8Array, from: number, to: number): Uint8Array {
  return to - from > LONG_BYTES ? bytes.subarray(from, to) : bytes.slice(from, to);
}

/** Tells whether a value would keep much more than itself in memory. */
export function isForeign(value: unknown): value is Uint8Array {
  return value instanceof Uint8Array && value.length > LONG_BYTES && value.buffer.byteLength > 2 * value.length;
}

/** The stand-in for a value that its row has no room for. */
export const TOO_LARGE = Symbol('too large');
