import { AnnouncedSquares, type FollowedRow, type FollowingRunSetup } from './AnnouncedSquares.js';
import { SquareRun } from './SquareRun.js';

export type { FollowingRunSetup } from './AnnouncedSquares.js';

/**
 * A run of layers after a model's first ones: its rows and squares are those that the engine before announces, its
 * first layer takes the hidden states that come from there. After its last layer they go on to the next engine; or,
 * where that is the model's last, what the head finds goes back to the first. It has no results of its own.
 */
export class FollowingRun extends SquareRun<FollowedRow, never> {
  constructor(setup: FollowingRunSetup) {
    super(setup, undefined, (parts) => new AnnouncedSquares(setup, parts));
  }
}
