import { DigestSet } from './DigestSet.js';
import { IntegerSet } from './IntegerSet.js';

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
