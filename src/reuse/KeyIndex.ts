import { randomBytes } from 'node:crypto';

/** 32-bit words of a key that are kept. Two keys that agree in them are told apart when the record is read. */
const WORDS = 2;
const FIRST_PLACES = 64;
/** Of its places a table fills this share before it grows, by this factor. */
const FULLEST = 7 / 8;
const GROWTH = 1.5;

/** What stands at a free place, instead of where a record begins: a file begins with its header. */
const FREE = 0;
const FORGOTTEN = -1;

/** Where each key's record begins: 18 to 28 bytes a key, outside of JavaScript's heap. */
export class KeyIndex {
  /** Open addressing: each key at the first free place from its own on. */
  #keys = new Uint32Array(FIRST_PLACES * WORDS);
  #offsets = new Float64Array(FIRST_PLACES);
  #size = 0;
  /**
   * Keys come from files, which anybody may have written. Which of them crowd follows from numbers that nobody knows.
   */
  readonly #first = oddNumber();
  readonly #second = oddNumber();

  /** Keys that were ever set. */
  get size(): number {
    return this.#size;
  }

  get bytes(): number {
    return this.#keys.byteLength + this.#offsets.byteLength;
  }

  /** @param key at least 8 bytes; what agrees in its first 8 is one key */
  get(key: Buffer): number | undefined {
    const offset = this.#offsets[this.#placeOf(key.readUInt32LE(0), key.readUInt32LE(4))];
    return offset === undefined || offset === FREE || offset === FORGOTTEN ? undefined : offset;
  }

  /** @param offset from 1 */
  set(key: Buffer, offset: number): void {
    this.#put(key.readUInt32LE(0), key.readUInt32LE(4), offset);
    if (this.#size > this.#offsets.length * FULLEST) this.#grow();
  }

  forget(key: Buffer): void {
    if (this.get(key) !== undefined) this.#put(key.readUInt32LE(0), key.readUInt32LE(4), FORGOTTEN);
  }

  #put(first: number, second: number, offset: number): void {
    const place = this.#placeOf(first, second);
    if (this.#offsets[place] === FREE) this.#size += 1;
    this.#keys[place * WORDS] = first;
    this.#keys[place * WORDS + 1] = second;
    this.#offsets[place] = offset;
  }

  #grow(): void {
    const [keys, offsets] = [this.#keys, this.#offsets];
    const places = Math.ceil(offsets.length * GROWTH);
    this.#keys = new Uint32Array(places * WORDS);
    this.#offsets = new Float64Array(places);
    this.#size = 0;
    offsets.forEach((offset, place) => {
      if (offset !== FREE) this.#put(keys[place * WORDS] ?? 0, keys[place * WORDS + 1] ?? 0, offset);
    });
  }

  /** Where a key stands, or is to stand. */
  #placeOf(first: number, second: number): number {
    const places = this.#offsets.length;
    const spread = (Math.imul(first, this.#first) + Math.imul(second, this.#second)) >>> 0;
    for (let place = Math.floor((spread / 2 ** 32) * places); ; place = place + 1 === places ? 0 : place + 1) {
      if (
        this.#offsets[place] === FREE ||
        (this.#keys[place * WORDS] === first && this.#keys[place * WORDS + 1] === second)
      )
        return place;
    }
  }
}

function oddNumber(): number {
  return randomBytes(4).readUInt32LE() | 1;
}
