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

/** The stand-in for a value that its row has no room for. */
export const TOO_LARGE = Symbol('too large');
