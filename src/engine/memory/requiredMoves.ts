import type { RequiredMoves } from '../schedules/PathRecord.js';
import type { Movement, PageLookup } from './movement.js';

/** What a placement's movements demand of a path, in the words of `validatePath`. */
export function requiredMoves(movement: Movement, pagesOf: PageLookup = () => undefined): RequiredMoves {
  return (name, square) => {
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
  };
}
