import type { StageContext } from '../engine/execution/Run.js';
import { stage, type Stage } from './stageInternals.js';

/** Issues `store_cache`: the keys and values of the square's new tokens go to the tier where they live. */
export function storeCache(run: StageContext): Stage {
  return stage(() => (square) => {
    const { compute } = square.events;
    const events = run.issueMoves(
      square,
      'store_cache',
      run.movement.storeCache(square, (row) => run.pagesOf(row)),
      compute ? [compute] : [],
    );
    run.lastStores.note('store_cache', square, events);
  });
}
