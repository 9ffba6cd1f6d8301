import type { Square } from '../grid/Square.js';
import { hopsOf, type MoveName } from '../grid/Task.js';
import type { RequiredMoves } from '../schedules/PathRecord.js';
import type { Move, Movement, PageLookup } from './movement.js';

/**
 * What a placement's movements demand of a path, in the words of `validatePath`. What one task moves over several links
 * counts on each.
 */
export function requiredMoves(movement: Movement, pagesOf: PageLookup = () => undefined): RequiredMoves {
  return (name, square) =>
    routesOf(movement, name, square, pagesOf).flatMap((route) =>
      route.some(({ hops }) => hops) ? route.flatMap((move) => hopsOf(move).map((hop) => [hop])) : [route],
    );
}

function routesOf(movement: Movement, name: MoveName, square: Square, pagesOf: PageLookup): Move[][] {
  switch (name) {
    case 'load_weight':
      return movement.loadWeight(square);
    case 'load_cache':
      return movement.loadCache(square, pagesOf);
    case 'load_activation':
      return movement.loadActivation(square);
    case 'store_activation':
      return movement.storeActivation(square);
    case 'store_cache':
      return movement.storeCache(square, pagesOf);
  }
}
