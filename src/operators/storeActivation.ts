import type { StageContext } from '../engine/execution/Run.js';
import { LastStores, stage, type Stage } from './stageInternals.js';

/** The stores of each slot's last square: what the load for the next layer waits for. */
export const activationStores = new LastStores(({ batch }) => String(batch.slot));

/**
 * Issues `store_activation`: the square's hidden states go to the tier where activations live, until the next layer
 * wants them.
 */
export function storeActivation(run: StageContext): Stage {
  activationStores.open(run);
  return stage((square) => {
    const { compute } = square.events;
    const events = run.issueMoves(
      square,
      'store_activation',
      run.movement.storeActivation(square),
      compute ? [compute] : [],
    );
    if (events.length > 0) activationStores.note(run, square, events);
  });
}
