import type { RowId } from '../grid/Square.js';
import type { KnownStretch } from '../schedules/PathChecker.js';
import type { RowBegin } from '../schedules/nextSweep.js';
import type { Call } from './Call.js';
import type { HeldRow } from './HeldRows.js';
import type { RunRow } from './RunRow.js';

/** A row that has been admitted. */
export interface LiveRow<Result> extends HeldRow {
  readonly id: RowId;
  /** Undefined for a prefix that is computed for rows to come. */
  readonly row: RunRow<Result> | undefined;
  /** The call of the row, or of the row that a prefix was opened for. */
  readonly call: Call<Result>;
  /** Most tokens that it samples. */
  readonly newTokens: number;
  /** The beginning of a prefix, and of a row that begins, or goes on, after what has been computed. */
  begin: RowBegin | undefined;
  /** Its result is out, or nobody wants it; squares that were planned before may still hold it. */
  ended: boolean;
  /** Tokens that are known beyond the next one, the last time that there were some. */
  known: KnownStretch | undefined;
}
