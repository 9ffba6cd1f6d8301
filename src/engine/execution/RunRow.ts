import type { RowId } from '../grid/Square.js';
import type { DeviceRow } from '../grid/Device.js';
import type { HeadOutput } from '../grid/Task.js';

/**
 * How a row is over that has no result itself: others go on after it, with what it has computed or at its place, and
 * one of them, here or elsewhere, will.
 */
export class Continuation<Result> {
  /** @param later those that take time to make: what it rejects with fails the run */
  constructor(
    readonly rows: readonly RunRow<Result>[] = [],
    readonly later?: Promise<readonly RunRow<Result>[]>,
  ) {}
}

/** A row as a run sees it; what its tokens mean is the caller's business. */
export interface RunRow<Result> {
  readonly sequence: DeviceRow;
  /** Most tokens that will be sampled; 0 for a row that is only scored. */
  readonly newTokens: number;
  /**
   * How many of its tokens, from the first, have keys and values that rows may share. Default: all of a row that
   * samples, none of one that is scored.
   */
  readonly sharedTokens?: number;
  /** Rows will go on after its prompt: all of that is kept for them. Default false. */
  readonly goesOn?: boolean;
  /** How many of them belong to a row that it goes on after: they have been counted. Default 0. */
  readonly countedTokens?: number;
  /** Told when the row gets its place. */
  begin?(): void;
  /**
   * Takes what the head found for the row; how it ends when that was the end of it.
   * @param firstPosition what comes before it others have computed
   */
  accept(head: HeadOutput, row: RowId, firstPosition: number): Result | Continuation<Result> | undefined;
}
