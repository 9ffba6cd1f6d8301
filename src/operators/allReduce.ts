import type { StageContext } from '../engine/execution/Run.js';
import { stage, type Stage } from './stageInternals.js';

/**
 * Issues `all_reduce`, where engines share each layer: what this one's share of a branch adds to the hidden states
 * becomes the sum of all engines'. It stands between the parts of a layer's compute, the next of which goes on with it.
 */
export function allReduce(run: StageContext): Stage {
  return stage(() => (square) => {
    const { events } = square;
    const move = run.movement.allReduce?.(square);
    if (move && events.compute) events.compute = run.issue(square, { name: 'all_reduce', ...move }, [events.compute]);
  });
}
