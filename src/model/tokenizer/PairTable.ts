/**
 * A hash table from a pair of non-negative integers to another, in three flat arrays: no object per entry. Its
 * multipliers are drawn by chance, so that nobody can write a file whose pairs all fall into one place; what is found
 * never depends on them.
 */
export class PairTable {
  readonly #left: Int32Array;
  readonly #right: Int32Array;
  readonly #value: Int32Array;
  readonly #mask: number;
  readonly #shift: number;
  readonly #a = oddMultiplier();
  readonly #b = oddMultiplier();

  /** @param capacity the most entries that will be set */
  constructor(capacity: number) {
    let size = 16;
    while (size < capacity * 2) size *= 2;
    this.#left = new Int32Array(size).fill(-1);
    this.#right = new Int32Array(size);
    this.#value = new Int32Array(size);
    this.#mask = size - 1;
    this.#shift = Math.clz32(this.#mask);
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
    // The high bits of a product depend on all bits of its factors.
    let at = (Math.imul(left, this.#a) + Math.imul(right, this.#b)) >>> this.#shift;
    for (;;) {
      const found = lefts[at] ?? -1;
      if (found < 0 || (found === left && rights[at] === right)) return at;
      at = (at + 1) & this.#mask;
    }
  }
}

function oddMultiplier(): number {
  return Math.floor(Math.random() * 2 ** 32) | 1;
}
