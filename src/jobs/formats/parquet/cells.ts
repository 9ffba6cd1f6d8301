import type { Slots } from './LeafReader.js';
import type { Leaf } from './schema.js';

/** Rows as they stand in a Parquet file, by leaf, to be written into another one. */
export class Batch {
  /** The places where the rows of each leaf begin that is a part of something. */
  readonly #starts: readonly (readonly number[] | undefined)[];

  constructor(
    private readonly leaves: readonly Leaf[],
    private readonly slots: readonly Slots[],
  ) {
    this.#starts = leaves.map(({ repetition }, at) => {
      if (repetition === 0) return undefined;
      const levels = slots[at]?.repetition ?? [];
      return [...[...levels.keys()].filter((slot) => levels[slot] === 0), levels.length];
    });
  }

  /**
   * Hands on each slot of a row of a leaf: its value, null where there is none, and its levels. @returns how many there
   * were
   */
  forEach(row: number, at: number, hand: (value: unknown, definition: number, repetition: number) => void): number {
    const [slots, starts, leaf] = [this.slots[at], this.#starts[at], this.leaves[at]];
    if (slots === undefined || leaf === undefined) return 0;
    const [from, to] = starts === undefined ? [row, row + 1] : [starts[row] ?? 0, starts[row + 1] ?? 0];
    for (let slot = from; slot < to; slot += 1)
      hand(slots.values[slot], slots.definition[slot] ?? leaf.definition, slots.repetition[slot] ?? 0);
    return to - from;
  }
}

/** A row of a batch. */
export interface Cells {
  readonly batch: Batch;
  readonly row: number;
}

const CELLS = Symbol('cells');

/** Makes what a row carries into a file of the same format: nothing that anybody else can read. */
export function withCells(batch: Batch, row: number): Readonly<Record<string, unknown>> {
  return Object.defineProperty({}, CELLS, { value: { batch, row } });
}

export function cellsOf(carry: Readonly<Record<string, unknown>> | undefined): Cells | undefined {
  return (carry as { readonly [CELLS]?: Cells } | undefined)?.[CELLS];
}
