import type { StageContext } from '../engine/execution/Run.js';
import type { Exchange } from '../engine/grid/rowExchange.js';
import { stage, type Stage } from './stageInternals.js';

/**
 * Issues `all_to_all` or `all_to_all_back`, where engines share each layer and attend to some rows each: what a layer
 * projects goes to the engines that keep its rows before attention, and what attention gives comes back after it.
 * @param exchange `rows` before attention, `heads` after it
 */
export function allToAll(run: StageContext, exchange: Exchange): Stage {
  const name = exchange === 'rows' ? 'all_to_all' : 'all_to_all_back';
  return stage(() => (square) => {
    const { events } = square;
    const move = run.movement.allToAll?.(square, exchange, (row) => run.pagesOf(row));
    if (move && events.compute) events.compute = run.issue(square, { name, ...move }, [events.compute]);
  });
}
