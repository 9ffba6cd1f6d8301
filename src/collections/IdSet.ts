import { DigestSet } from './DigestSet.js';

/** Values in one container. */
const CONTAINER_VALUES = 65_536;
/** A container with more members than this is a bitmap of 8 KiB; below, a list of values is smaller. */
const MAX_LIST = 256;
const LIMIT = 2 ** 32;

/**
 * A growing set of whole numbers, in the manner of Roaring bitmaps: numbers that lie close together cost a bit each,
 * scattered ones some 50 bytes. A million consecutive ids take 128 KiB.
 */
export class IntegerSet {
  readonly #containers = new Map<number, Set<number> | Uint32Array>();
  /** Numbers of 2^32 and above, and negative ones. */
  readonly #far = new Set<number>();

  /** Adds a whole number; false if it was there. */
  add(value: number): boolean {
    if (value < 0 || value >= LIMIT) return addTo(this.#far, value);
    const key = Math.floor(value / CONTAINER_VALUES);
    const low = value % CONTAINER_VALUES;
    const container = this.#containers.get(key);
    if (container === undefined) {
      this.#containers.set(key, new Set([low]));
      return true;
    }
    if (container instanceof Uint32Array) return setBit(container, low);
    if (!addTo(container, low)) return false;
    if (container.size > MAX_LIST) {
      const bits = new Uint32Array(CONTAINER_VALUES / 32);
      for (const member of container) setBit(bits, member);
      this.#containers.set(key, bits);
    }
    return true;
  }
}

function addTo(set: Set<number>, value: number): boolean {
  if (set.has(value)) return false;
  set.add(value);
  return true;
}

function setBit(bits: Uint32Array, at: number): boolean {
  const word = bits[at >>> 5] ?? 0;
  const mask = 1 << (at & 31);
  if ((word & mask) !== 0) return false;
  bits[at >>> 5] = word | mask;
  return true;
}

/**
 * The ids that have been seen. Whole numbers cost a bit where they lie close together, anything else 14 to 27 bytes
 * (see DigestSet): a million ids of any length take some 20 MiB. `1` and `"1"` are different ids.
 */
export class IdSet {
  readonly #numbers = new IntegerSet();
  readonly #others = new DigestSet();

  /** False if the id was there. */
  add(id: string | number): boolean {
    if (typeof id === 'number' && Number.isSafeInteger(id)) return this.#numbers.add(id);
    // JSON tells `1.5` from `"1.5"`, and writes halves of surrogate pairs as escapes, which a digest of UTF-8 could not
    // tell apart.
    return this.#others.add(JSON.stringify(id));
  }
}
