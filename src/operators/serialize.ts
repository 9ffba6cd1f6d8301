import { defer } from 'rxjs';
import type { IssuedSquare } from '../engine/execution/IssuedSquare.js';
import type { TaskEvent } from '../engine/grid/Task.js';
import { overlap } from './overlap.js';
import { stage, type Stage } from './stageInternals.js';

/**
 * Stages whose tasks wait for one another: each stage for the one before it, and the first for all of the previous
 * square. Nothing overlaps; for ablations.
 */
export function serialize(...stages: readonly Stage[]): Stage {
  return (squares$) => defer(() => inSeries(stages)(squares$));
}

function inSeries(stages: readonly Stage[]): Stage {
  let previous: IssuedSquare | undefined;
  // Within another `serialize`, its barrier holds inside, and again behind.
  const outer = new WeakMap<IssuedSquare, readonly TaskEvent[]>();
  const waitForPrevious = stage(() => (square) => {
    outer.set(square, square.events.barrier);
    square.events.barrier = [...square.events.barrier, ...(previous?.events.all ?? [])];
    previous = square;
  });
  const waitForStage = stage(() => ({ events }) => {
    events.barrier = events.all.slice();
  });
  const open = stage(() => (square) => {
    square.events.barrier = outer.get(square) ?? [];
  });
  return overlap(waitForPrevious, ...stages.flatMap((each) => [each, waitForStage]), open);
}
