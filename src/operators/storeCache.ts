import type { StageContext } from '../engine/execution/Run.js';
import { stage, type Stage } from './stageInternals.js';

/**
 * Issues `store_cache`: the keys and values of the square's new tokens go to the tier where they live, once its rows
 * have attended.
 */
export function storeCache(run: StageContext): Stage {
  return stage(() => (square) => {
    const { compute, attend = compute } = square.events;
    const events = run.issueMoves(
      square,
      'store_cache',
      run.movement.storeCache(square, (row) => run.pagesOf(row)),
      attend ? [attend] : [],
    );
    run.lastStores.note('store_cache', square, events);
  });
}
