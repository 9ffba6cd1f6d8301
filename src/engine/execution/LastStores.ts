import type { IssuedSquare } from './IssuedSquare.js';
import type { TaskEvent } from '../grid/Task.js';

type StoreName = 'store_activation' | 'store_cache';

/**
 * What a run's stores issued last: of hidden states for each slot, of keys and values for each slot and layer. A load
 * of the same data waits for it.
 */
export class LastStores {
  private readonly last = new Map<string, readonly TaskEvent[]>();

  note(name: StoreName, square: IssuedSquare, events: readonly TaskEvent[]): void {
    if (events.length > 0) this.last.set(keyOf(name, square), events);
  }

  find(name: StoreName, square: IssuedSquare): readonly TaskEvent[] {
    return this.last.get(keyOf(name, square)) ?? [];
  }
}

function keyOf(name: StoreName, { batch: { slot }, layer }: IssuedSquare): string {
  return name === 'store_cache' ? `${name} ${slot} ${layer}` : `${name} ${slot}`;
}
