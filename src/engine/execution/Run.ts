import { type LiveRow, type RunSetup, ScheduledSquares } from './ScheduledSquares.js';
import { SquareRun } from './SquareRun.js';

export type { RunSetup } from './ScheduledSquares.js';
export type { StageContext, StageTask } from './StageContext.js';

/**
 * One pass of rows through a device: admits rows as memory allows, asks the schedule for squares, lets as many of them
 * into the stages as the window has credits, and turns what the head finds into results. It owns everything that the
 * rows hold, and gives all of it back.
 */
export class Run<Result> extends SquareRun<LiveRow<Result>, Result> {
  constructor(setup: RunSetup<Result>) {
    const { grid, schedule } = setup;
    super(
      setup,
      schedule.steady && { ...grid, staggered: schedule.steady === 'staggered' },
      (parts) => new ScheduledSquares(setup, parts),
    );
  }
}
