import type { IssuedSquare } from '../engine/execution/IssuedSquare.js';
import type { StageContext } from '../engine/execution/Run.js';
import type { TaskEvent } from '../engine/execution/Task.js';
import { stage, type Stage } from './stageInternals.js';

/** The stores of each slot's and layer's last square, by run: what the next load of the same cache waits for. */
const stores = new WeakMap<StageContext, Map<string, readonly TaskEvent[]>>();

/** Events of the last `store_cache` for the square's slot and layer. */
export function lastStores(run: StageContext, { slot, layer }: IssuedSquare): readonly TaskEvent[] {
  return stores.get(run)?.get(`${slot} ${layer}`) ?? [];
}

/** Issues `store_cache`: the keys and values of the square's new tokens go to the tier where they live. */
export function storeCache(run: StageContext): Stage {
  const last = new Map<string, readonly TaskEvent[]>();
  stores.set(run, last);
  return stage((square) => {
    const { compute } = square.events;
    const events = run.issueMoves(square, 'store_cache', run.movement.storeCache(square), compute ? [compute] : []);
    if (events.length > 0) last.set(`${square.slot} ${square.layer}`, events);
  });
}
