/** A hash table from a pair of token ids to a non-negative integer, in three flat arrays: no object per entry. */
export class PairTable {
  readonly #left: Int32Array;
  readonly #right: Int32Array;
  readonly #value: Int32Array;
  readonly #mask: number;

  /** @param capacity the most entries that will be set */
  constructor(capacity: number) {
    let size = 16;
    while (size < capacity * 2) size *= 2;
    this.#left = new Int32Array(size).fill(-1);
    this.#right = new Int32Array(size);
    this.#value = new Int32Array(size);
    this.#mask = size - 1;
  }

  set(left: number, right: number, value: number): void {
    const at = this.#find(left, right);
    this.#left[at] = left;
    this.#right[at] = right;
    this.#value[at] = value;
  }

  /** @returns the value, or -1 if the pair has none */
  get(left: number, right: number): number {
    const at = this.#find(left, right);
    return (this.#left[at] ?? -1) < 0 ? -1 : (this.#value[at] ?? -1);
  }

  #find(left: number, right: number): number {
    const lefts = this.#left;
    const rights = this.#right;
    let hash = Math.imul(left, 0x9e3779b1) ^ Math.imul(right, 0x85ebca77);
    hash ^= hash >>> 15;
    let at = hash & this.#mask;
    for (;;) {
      const found = lefts[at] ?? -1;
      if (found < 0 || (found === left && rights[at] === right)) return at;
      at = (at + 1) & this.#mask;
    }
  }
}
