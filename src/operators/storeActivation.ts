import type { StageContext } from '../engine/execution/Run.js';
import { stage, type Stage } from './stageInternals.js';

/**
 * Issues `store_activation`: the square's hidden states go to the tier where activations live, until the next layer
 * wants them.
 */
export function storeActivation(run: StageContext): Stage {
  return stage(() => (square) => {
    const { compute } = square.events;
    const events = run.issueMoves(
      square,
      'store_activation',
      run.movement.storeActivation(square),
      compute ? [compute] : [],
    );
    run.lastStores.note('store_activation', square, events);
  });
}
