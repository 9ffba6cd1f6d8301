import { DigestSet } from './DigestSet.js';
import { RecordTable } from './RecordTable.js';

/** Numbers that stand in one record, a bit each. */
const RECORD_NUMBERS = 32;

/**
 * A growing set of whole numbers, as large as JavaScript's can be: a byte each where they lie close together, scattered
 * ones 14 to 21. A million consecutive ids take 0.4 to 0.7 MB.
 */
export class IntegerSet {
  /** Keys are numbers without their last five bits, which are the place of a bit in the word that belongs to them. */
  readonly #records = new RecordTable(2, 3);
  /** Numbers often follow one another: the last record, and where it stands as long as none has come since. */
  #record = NaN;
  #words: Uint32Array = new Uint32Array();
  #at = 0;

  /** Adds a whole number; false if it was there. */
  add(value: number): boolean {
    const record = Math.floor(value / RECORD_NUMBERS);
    const bit = 1 << (value - record * RECORD_NUMBERS);
    if (record !== this.#record) {
      const [lower, upper] = [record >>> 0, Math.floor(record / 2 ** 32) >>> 0];
      const at = this.#records.locate(lower, upper, 0);
      if (!this.#records.isAt(at)) {
        this.#records.put(at, lower, upper, bit);
        this.#record = NaN;
        return true;
      }
      [this.#record, this.#words, this.#at] = [record, this.#records.words, at + 2];
    }
    const bits = this.#words[this.#at] ?? 0;
    if ((bits & bit) !== 0) return false;
    this.#words[this.#at] = bits | bit;
    return true;
  }
}

/**
 * The ids that have been seen. Whole numbers cost a byte where they lie close together, anything else 14 to 21 bytes
 * (see DigestSet): a million ids of any length take 14 to 21 MB, however many there are. `1` and `"1"` are different
 * ids.
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
