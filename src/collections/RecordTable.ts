import { randomInt } from 'node:crypto';

const FIRST_PLACES = 64;
/** A part grows up to so many places, then it becomes two: no record's arrival moves more than these. */
const MOST_PLACES = 16_384;
/** A part fills this share of its places before it grows, by this factor. */
const FULLEST = 7 / 8;
const GROWTH = 1.5;
/** The places of each of the two parts that one becomes. */
const HALF_PLACES = Math.ceil(MOST_PLACES / GROWTH);

/** Records whose hashes begin with the same bits. */
interface Part {
  readonly words: Uint32Array;
  readonly places: number;
  /** How many bits of their hashes they have in common. */
  readonly bits: number;
  size: number;
}

/**
 * A growing table of records of three or four 32-bit words: a key of two or three of them, and what belongs to it; the
 * last word is never 0. A record takes 1.15 to 1.75 times its words, outside of JavaScript's heap, there may be
 * thousands of
 * millions of them, and none waits until all others have been moved (extendible hashing).
 *
 * Which keys crowd follows from numbers that nobody knows: they come from files, which anybody may have written.
 */
export class RecordTable {
  /** Where `locate` has been last: the record stands at the place that it has said. */
  words: Uint32Array;
  #part: Part;
  /** By the first bits of hashes; a part stands at all places whose bits begin with its own. */
  #parts: Part[];
  #bits = 0;
  #size = 0;
  #bytes: number;
  readonly #width: number;
  readonly #first = oddNumber();
  readonly #second = oddNumber();
  readonly #third = oddNumber();

  /** @param words of a record, its key among them */
  constructor(
    private readonly keyWords: 2 | 3,
    words: 3 | 4,
  ) {
    this.#width = words;
    this.#part = this.#partOf(FIRST_PLACES, 0);
    this.#parts = [this.#part];
    this.words = this.#part.words;
    this.#bytes = this.words.byteLength;
  }

  get size(): number {
    return this.#size;
  }

  get bytes(): number {
    return this.#bytes;
  }

  /**
   * Where in `words` a key's record stands, or is to stand. @param third 0 for a key of two words
   */
  locate(first: number, second: number, third: number): number {
    const hash = this.#hash(first, second, third);
    this.#part = this.#parts[this.#bits === 0 ? 0 : hash >>> (32 - this.#bits)] ?? this.#part;
    this.words = this.#part.words;
    return this.#placeIn(this.#part, hash, first, second, third);
  }

  /** Tells whether there is a record where `locate` has been. */
  isAt(at: number): boolean {
    return this.words[at + this.#width - 1] !== 0;
  }

  /**
   * Puts a new record where `locate` has been; that place is forgotten then.
   * @param third of a key of two words the first word that belongs to it @param fourth the word after, where there is
   * one
   */
  put(at: number, first: number, second: number, third: number, fourth = 0): void {
    const { words } = this;
    words[at] = first;
    words[at + 1] = second;
    words[at + 2] = third;
    if (this.#width > 3) words[at + 3] = fourth;
    this.#size += 1;
    this.#part.size += 1;
    if (this.#part.size > this.#part.places * FULLEST) this.#grow(this.#part);
  }

  #grow(part: Part): void {
    const { bits } = part;
    // Hashes have no more bits; nobody's keys have half of those in common.
    const parted = part.places >= MOST_PLACES && bits < 24;
    const parts = parted
      ? [this.#partOf(HALF_PLACES, bits + 1), this.#partOf(HALF_PLACES, bits + 1)]
      : [this.#partOf(Math.min(Math.ceil(part.places * GROWTH), Math.max(MOST_PLACES, part.places * 2)), bits)];
    const [zero = part, one = part] = parts;
    for (let at = 0, { words } = part; at < words.length; at += this.#width) {
      if (words[at + this.#width - 1] === 0) continue;
      const [first, second, third] = [words[at] ?? 0, words[at + 1] ?? 0, words[at + 2] ?? 0];
      const hash = this.#hash(first, second, third);
      const to = parted && ((hash >>> (31 - bits)) & 1) === 1 ? one : zero;
      const place = this.#placeIn(to, hash, first, second, third);
      for (let word = 0; word < this.#width; word++) to.words[place + word] = words[at + word] ?? 0;
      to.size += 1;
    }
    if (parted && bits === this.#bits) {
      this.#parts = this.#parts.flatMap((each) => [each, each]);
      this.#bits += 1;
    }
    // They stand one after another: as many places as there are ways for the bits after its own to be.
    const places = 2 ** (this.#bits - bits);
    const from = this.#parts.indexOf(part);
    for (let at = 0; at < places; at++) this.#parts[from + at] = parted && at >= places / 2 ? one : zero;
    this.#bytes += parts.reduce((sum, { words }) => sum + words.byteLength, -part.words.byteLength);
  }

  #partOf(places: number, bits: number): Part {
    return { words: new Uint32Array(places * this.#width), places, bits, size: 0 };
  }

  #placeIn({ words, places }: Part, hash: number, first: number, second: number, third: number): number {
    const width = this.#width;
    const last = width - 1;
    const pairs = this.keyWords === 2;
    const end = places * width;
    // The part was chosen by the hash's first bits.
    let at = Math.floor(((Math.imul(hash, this.#third) >>> 0) / 2 ** 32) * places) * width;
    while (
      words[at + last] !== 0 &&
      !(words[at] === first && words[at + 1] === second && (pairs || words[at + 2] === third))
    ) {
      at += width;
      if (at === end) at = 0;
    }
    return at;
  }

  #hash(first: number, second: number, third: number): number {
    let hash = Math.imul(first ^ this.#first, 0x85ebca6b);
    hash = Math.imul(hash ^ (hash >>> 15) ^ second, this.#second);
    hash = Math.imul(hash ^ (hash >>> 13) ^ (this.keyWords === 2 ? 0 : third), 0xc2b2ae35);
    return (hash ^ (hash >>> 16)) >>> 0;
  }
}

function oddNumber(): number {
  return randomInt(2 ** 31) * 2 + 1;
}
