import type { Grid, RowId, Square } from '../grid/Square.js';

/** A row that memory has been found for, as it grows, and that may be given a place. */
export interface AdmittedRow {
  readonly row: RowId;
  /** Tokens that are there from the start. */
  readonly promptTokens: number;
  /** Most tokens that will be sampled; 0 for a row that is only scored. */
  readonly newTokens: number;
  /** Prompts of rows of a higher one are computed first. Default 0. */
  readonly priority?: number;
}

/** The events since a schedule was last asked. */
export interface Observed {
  /**
   * New rows, in order of arrival. A schedule must take them all: as many as `free` said it had places for. A row that
   * had given up its place to another one is among `ended` then, and comes again later, as what is left of it.
   */
  readonly admitted: readonly AdmittedRow[];
  /**
   * Rows that ended before their last token (an end token, a stop string). A row that runs to its full length is not
   * among them.
   */
  readonly ended: ReadonlySet<RowId>;
  /**
   * Rows of which more tokens are known than the next one, since a grammar forces them: up to which position, counted
   * like the schedule's own. One square may advance a row by all of them, and there is memory for that in the next
   * sweep. They need not be: a row that goes on token by token comes to the same. Default: none.
   */
  readonly known?: ReadonlyMap<RowId, number>;
}

/**
 * A schedule decides which squares come in which order. It is pure: what was observed goes in, the squares of the next
 * sweep come out. Squares run ahead of what is known: the sweep after a row's end may still hold it; its results are
 * then thrown away.
 */
export interface Schedule<State = unknown> {
  readonly name: string;
  /**
   * A promise about every sweep, or every `microBatches` sweeps of the grid: it advances each row that decodes by one
   * token, and prompts by what is left of their slot's square, those of a higher priority first, then the oldest; what
   * is left then goes to tokens that are known. Memory is then counted as rows grow
   * and end, so more of them fit; without the promise a row counts in full from the start. `staggered`: rows come in
   * whenever there is a place, and are spread over time where memory is scarce; `blocks`: they come in together.
   */
  readonly steady?: 'staggered' | 'blocks';
  start(grid: Grid): State;
  /** Places for which `next` would take new rows now, given the rows that have ended. */
  free(state: State, ended: ReadonlySet<RowId>): number;
  /** The squares of the next sweep, in order; none when no row is left to advance. */
  next(state: State, observed: Observed): { readonly state: State; readonly squares: Iterable<Square> };
}

/** Leaves out a schedule's promise, which is of rows that grow; those of an encoder have all of their pages at once. */
export function withoutPromise<State>(schedule: Schedule<State>): Schedule<State> {
  return {
    name: schedule.name,
    start: (grid) => schedule.start(grid),
    free: (state, ended) => schedule.free(state, ended),
    next: (state, observed) => schedule.next(state, observed),
  };
}
