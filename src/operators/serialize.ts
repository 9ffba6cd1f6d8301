import type { IssuedSquare } from '../engine/execution/IssuedSquare.js';
import { overlap } from './overlap.js';
import { stage, type Stage } from './stageInternals.js';

/**
 * Stages whose tasks wait for one another: each stage for the one before it, and the first for all of the previous square. Nothing
 * overlaps; for ablations.
 */
export function serialize(...stages: readonly Stage[]): Stage {
  let previous: IssuedSquare | undefined;
  const waitForPrevious = stage((square) => {
    square.events.barrier = previous?.events.all.slice() ?? [];
    previous = square;
  });
  const waitForStage = stage(({ events }) => {
    events.barrier = events.all.slice();
  });
  const open = stage(({ events }) => {
    events.barrier = [];
  });
  return overlap(waitForPrevious, ...stages.flatMap((each) => [each, waitForStage]), open);
}
