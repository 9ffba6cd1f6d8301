import type { StageContext } from '../engine/execution/Run.js';
import { stage, type Stage } from './stageInternals.js';

/**
 * Issues `broadcast`, where engines share each layer: the hidden states that the first one has embedded go to all
 * others.
 */
export function broadcast(run: StageContext): Stage {
  return stage(() => (square) => {
    const { events } = square;
    const move = run.movement.broadcast?.(square);
    if (move && events.compute) events.compute = run.issue(square, { name: 'broadcast', ...move }, [events.compute]);
  });
}
