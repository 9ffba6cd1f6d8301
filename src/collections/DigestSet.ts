import * as crypto from 'node:crypto';
import { RecordTable } from './RecordTable.js';

/**
 * A growing set of texts of any length that keeps 96 bits of a digest of each instead of the text: 14 to 21 bytes a
 * text, outside of JavaScript's heap, where a Set of short strings takes some 300. Of a thousand million texts, two
 * have
 * the same 96 bits with a chance of some 10^-11, also if somebody makes texts up.
 */
export class DigestSet {
  readonly #digests = new RecordTable(3, 3);

  /**
   * False if the text was there.
   * @param text without halves of surrogate pairs: UTF-8, which the digest is of, has one replacement for all of them
   */
  add(text: string): boolean {
    // As a string, each character a byte: made in a third of the time that a Buffer takes, and no work for the
    // collector of garbage.
    const digest = crypto.hash('sha256', text, 'binary');
    const [first, second, third] = [wordOf(digest, 0), wordOf(digest, 4), wordOf(digest, 8) || 1];
    const at = this.#digests.locate(first, second, third);
    if (this.#digests.isAt(at)) return false;
    this.#digests.put(at, first, second, third);
    return true;
  }
}

function wordOf(digest: string, at: number): number {
  const byte = (index: number): number => digest.charCodeAt(at + index) << (8 * index);
  return (byte(0) | byte(1) | byte(2) | byte(3)) >>> 0;
}
