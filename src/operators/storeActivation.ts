import type { IssuedSquare } from '../engine/execution/IssuedSquare.js';
import type { StageContext } from '../engine/execution/Run.js';
import type { TaskEvent } from '../engine/execution/Task.js';
import { stage, type Stage } from './stageInternals.js';

/** The stores of each slot's last square, by run: what the load for the next layer waits for. */
const stores = new WeakMap<StageContext, Map<number, readonly TaskEvent[]>>();

/** Events of the last `store_activation` of the square's slot. */
export function lastActivations(run: StageContext, { slot }: IssuedSquare): readonly TaskEvent[] {
  return stores.get(run)?.get(slot) ?? [];
}

/** Issues `store_activation`: the square's hidden states go to the tier where activations live, until the next layer wants them. */
export function storeActivation(run: StageContext): Stage {
  const last = new Map<number, readonly TaskEvent[]>();
  stores.set(run, last);
  return stage((square) => {
    const { compute } = square.events;
    last.set(square.slot, run.issueMoves(square, 'store_activation', run.movement.storeActivation(square), compute ? [compute] : []));
  });
}
