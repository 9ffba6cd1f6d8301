import type { Batch, RowRange } from '../grid/Square.js';
import type { Call } from './Call.js';
import type { LiveRow } from './LiveRow.js';
import { type RunSetup, ScheduledSquares } from './ScheduledSquares.js';
import { SquareRun } from './SquareRun.js';

export type { RunSetup } from './ScheduledSquares.js';
export type { StageContext, StageTask } from './StageContext.js';

/**
 * One pass of rows through a device: admits rows as memory allows, asks the schedule for squares, lets as many of them
 * into the stages as the window has credits, and turns what the head finds into results. It owns everything that the
 * rows hold, and gives all of it back. Its rows are those of one call, or of all calls that join while it is under way.
 */
export class Run<Result> extends SquareRun<LiveRow<Result>, Result, ScheduledSquares<Result>> {
  /** Its number on the device. */
  readonly id: number;

  constructor(setup: RunSetup<Result>) {
    const { id, grid, schedule } = setup;
    super(
      setup,
      schedule.steady && { ...grid, staggered: schedule.steady === 'staggered' },
      (parts) => new ScheduledSquares(setup, parts),
    );
    this.id = id;
  }

  /** Rows of a call come in from now on, until it leaves, or is over: it is told so. */
  join(call: Call<Result>): void {
    this.source.join(call);
  }

  /** A call wants no more results. */
  leave(call: Call<Result>): void {
    this.source.leave(call);
  }

  /** Calls that have joined and are not over. */
  get callCount(): number {
    return this.source.callCount;
  }

  /** The calls that have rows in a batch, and those rows. */
  shares(batch: Batch): ReadonlyMap<Call<Result>, readonly RowRange[]> {
    return this.source.shares(batch);
  }
}
