const SMALL = 256;

/** A set of whole numbers from 0, with open addressing: what a match has found out, millions of times. */
export class NumberSet {
  /** One more than each number; 0 where there is none. */
  #slots = new Float64Array(SMALL);
  #size = 0;

  has(value: number): boolean {
    const slots = this.#slots;
    const last = slots.length - 1;
    for (let at = spread(value) & last; ; at = (at + 1) & last) {
      const there = slots[at];
      if (there === 0) return false;
      if (there === value + 1) return true;
    }
  }

  add(value: number): void {
    if (2 * this.#size >= this.#slots.length) this.#grow();
    if (place(this.#slots, value)) this.#size += 1;
  }

  clear(): void {
    if (this.#size === 0) return;
    this.#size = 0;
    if (this.#slots.length > 16 * SMALL) this.#slots = new Float64Array(SMALL);
    else this.#slots.fill(0);
  }

  #grow(): void {
    const larger = new Float64Array(this.#slots.length * 2);
    for (const there of this.#slots) if (there !== 0) place(larger, there - 1);
    this.#slots = larger;
  }
}

function place(slots: Float64Array, value: number): boolean {
  const last = slots.length - 1;
  for (let at = spread(value) & last; ; at = (at + 1) & last) {
    const there = slots[at];
    if (there === value + 1) return false;
    if (there === 0) {
      slots[at] = value + 1;
      return true;
    }
  }
}

function spread(value: number): number {
  const [low, high] = [value | 0, Math.floor(value / 2 ** 32)];
  const mixed = Math.imul(low ^ Math.imul(high, 0x85ebca6b), 0x9e3779b1);
  return mixed ^ (mixed >>> 15);
}
