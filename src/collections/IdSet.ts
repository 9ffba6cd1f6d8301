import { IntegerSet } from './IntegerSet.js';

/**
 * The ids that have been seen. Whole numbers cost a bit where they lie close together; a string costs itself and some 60 bytes, so a
 * million ids of 20 characters take about 100 MiB. `1` and `"1"` are different ids.
 */
export class IdSet {
  readonly #numbers = new IntegerSet();
  readonly #others = new Set<string | number>();

  /** False if the id was there. */
  add(id: string | number): boolean {
    if (typeof id === 'number' && Number.isSafeInteger(id)) return this.#numbers.add(id);
    if (this.#others.has(id)) return false;
    this.#others.add(id);
    return true;
  }
}
