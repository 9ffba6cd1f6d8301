import { RecordTable } from '../collections/RecordTable.js';

/** The value that stands for the place of a record that has been forgotten: a file begins with its header. */
const FORGOTTEN = 0;
const WORD = 2 ** 32;

/**
 * Where each key's record begins: 18 to 28 bytes a key, outside of JavaScript's heap. Of a key 64 bits are kept; two
 * that
 * agree in them are told apart when the record is read.
 */
export class KeyIndex {
  /** A key's two words, and the two of an offset, to the upper one of which 1 is added. */
  readonly #offsets = new RecordTable(2, 4);

  /** Keys that were ever set. */
  get size(): number {
    return this.#offsets.size;
  }

  get bytes(): number {
    return this.#offsets.bytes;
  }

  /** @param key at least 8 bytes; what agrees in its first 8 is one key */
  get(key: Buffer): number | undefined {
    const at = this.#locate(key);
    if (!this.#offsets.isAt(at)) return undefined;
    const { words } = this.#offsets;
    return (words[at + 2] ?? 0) + ((words[at + 3] ?? 0) - 1) * WORD || undefined;
  }

  /** @param offset from 1 */
  set(key: Buffer, offset: number): void {
    const at = this.#locate(key);
    const [lower, upper] = [offset >>> 0, Math.floor(offset / WORD) + 1];
    if (this.#offsets.isAt(at)) this.#offsets.words.set([lower, upper], at + 2);
    else this.#offsets.put(at, ...keyOf(key), lower, upper);
  }

  forget(key: Buffer): void {
    if (this.get(key) !== undefined) this.set(key, FORGOTTEN);
  }

  #locate(key: Buffer): number {
    return this.#offsets.locate(...keyOf(key), 0);
  }
}

function keyOf(key: Buffer): [first: number, second: number] {
  return [key.readUInt32LE(0), key.readUInt32LE(4)];
}
