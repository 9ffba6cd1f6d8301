import type { IssuedSquare } from '../engine/execution/IssuedSquare.js';
import type { StageContext } from '../engine/execution/Run.js';
import type { TaskEvent } from '../engine/grid/Task.js';
import {
  aheadOf,
  startsAfterPrefix,
  NO_EVENTS,
  stage,
  StepGate,
  type LookAhead,
  type Stage,
} from './stageInternals.js';

/**
 * Issues `load_cache` for the keys and values of the square's rows that do not live where attention happens. It waits
 * for the stores of the same rows' last pass; where a row begins after what others have computed, for the layer's
 * stores of all slots.
 *
 * @param lookAhead its `ahead`: squares whose cache may be loaded ahead of the one that attends. Default 1
 */
export function loadCache(run: StageContext, lookAhead: LookAhead = {}): Stage {
  const ahead = aheadOf(lookAhead);
  return stage(() => {
    const gate = new StepGate(ahead, ({ compute, attend = compute }) => attend);
    return (square) => {
      gate.open(square);
      const routes = run.movement.loadCache(square, (row) => run.pagesOf(row));
      const after = routes.length === 0 ? NO_EVENTS : [...gate.before(), ...stores(run, square)];
      square.events.cache.push(...run.issueMoves(square, 'load_cache', routes, after));
    };
  });
}

/** The stores that a square's loads come after. */
function stores({ lastStores }: StageContext, square: IssuedSquare): readonly TaskEvent[] {
  return startsAfterPrefix(square.batch) ? lastStores.cachesOf(square.layer) : lastStores.find('store_cache', square);
}
