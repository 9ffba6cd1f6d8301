import type { StageContext } from '../engine/execution/Run.js';
import { LastStores, stage, type Stage } from './stageInternals.js';

/** The stores of each slot's and layer's last square: what the next load of the same cache waits for. */
export const cacheStores = new LastStores(({ batch, layer }) => `${batch.slot} ${layer}`);

/** Issues `store_cache`: the keys and values of the square's new tokens go to the tier where they live. */
export function storeCache(run: StageContext): Stage {
  cacheStores.open(run);
  return stage((square) => {
    const { compute } = square.events;
    const events = run.issueMoves(
      square,
      'store_cache',
      run.movement.storeCache(square, (row) => run.pagesOf(row)),
      compute ? [compute] : [],
    );
    if (events.length > 0) cacheStores.note(run, square, events);
  });
}
