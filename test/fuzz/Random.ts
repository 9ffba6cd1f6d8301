/** Random numbers that a seed determines, on every machine (mulberry32). */
export class Random {
  #state: number;

  constructor(seed: number) {
    this.#state = seed >>> 0;
  }

  /** A whole number of 32 bits. */
  next(): number {
    this.#state = (this.#state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(this.#state ^ (this.#state >>> 15), this.#state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return (mixed ^ (mixed >>> 14)) >>> 0;
  }

  /** A whole number from 0 to `count` - 1; 0 for a count of 0. */
  below(count: number): number {
    return count <= 1 ? 0 : Math.floor((this.next() / 2 ** 32) * count);
  }

  chance(share: number): boolean {
    return this.next() < share * 2 ** 32;
  }

  /** @throws RangeError for an empty list */
  pick<T>(items: readonly T[]): T {
    const index = this.below(items.length);
    if (index >= items.length) throw new RangeError('nothing to pick from');
    return items[index] as T;
  }

  /** One of several things to do, each as likely as its weight says. */
  weighted<T>(choices: readonly (readonly [weight: number, choice: T])[]): T {
    let at = this.below(choices.reduce((sum, [weight]) => sum + weight, 0));
    for (const [weight, choice] of choices) {
      if (at < weight) return choice;
      at -= weight;
    }
    throw new RangeError('nothing to choose from');
  }

  /** Between `least` and `most` of what `make` makes. */
  list<T>(least: number, most: number, make: () => T): T[] {
    return Array.from({ length: least + this.below(most - least + 1) }, make);
  }
}

/** Mixes whole numbers into one seed. */
export function mixed(...numbers: readonly number[]): number {
  let hash = 0x811c9dc5;
  for (const number of numbers) hash = new Random(hash ^ (number >>> 0)).next();
  return hash;
}
