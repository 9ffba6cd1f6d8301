import type { AnyResult } from '../../Results.js';

/**
 * Brings the results of each row together, for a stream of a format that has one line for all samples of a row: they
 * are held until there is the last of them, in whatever order they come. Those are results of rows that are in the
 * engine, and no others.
 */
export class WholeRows {
  readonly #held = new Map<number, AnyResult[]>();

  /**
   * @param index whose results they are
   * @param isOpen whether the row has more to come
   * @returns what is whole by now, by sample
   */
  add(index: number, results: readonly AnyResult[], isOpen: boolean): readonly AnyResult[] {
    const row = this.#held.get(index) ?? [];
    for (const result of results) row.push(result);
    if (isOpen) this.#held.set(index, row);
    else this.#held.delete(index);
    return isOpen ? [] : bySample(row);
  }

  /** Gives what is there of the other rows, where results end before they are whole. */
  rest(): readonly AnyResult[] {
    const rows = [...this.#held.values()];
    this.#held.clear();
    return rows.flatMap(bySample);
  }
}

function bySample(row: readonly AnyResult[]): readonly AnyResult[] {
  return [...row].sort((a, b) => (a.sample ?? -1) - (b.sample ?? -1));
}
