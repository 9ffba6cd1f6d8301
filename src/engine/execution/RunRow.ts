import type { RowId } from '../schedules/Square.js';
import type { DeviceRow } from './Device.js';
import type { HeadOutput } from './Task.js';

/** A row as a run sees it; what its tokens mean is the caller's business. */
export interface RunRow<Result> {
  readonly sequence: DeviceRow;
  /** Most tokens that will be sampled; 0 for a row that is only scored. */
  readonly newTokens: number;
  /** Told when the row gets its place. */
  begin?(): void;
  /** Takes what the head found for the row; a result when that was the end of it. */
  accept(head: HeadOutput, row: RowId): Result | undefined;
}
