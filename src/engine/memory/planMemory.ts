import type { RuntimeBytes } from '../../bindings/Addon.js';
import { MemoryBudgetError } from '../../errors/MemoryBudgetError.js';

/** Left for the JavaScript heap to grow in: rows in flight, buffers of files, results that wait. */
export const HEAP_MARGIN_BYTES = 64 * 2 ** 20;

export interface MemoryDemand {
  /** Cap on resident memory. */
  readonly capBytes: number;
  /** What the process holds before the runtime is opened. */
  readonly residentBytes: number;
  /** The runtime's needs with exactly one page of cache a layer. */
  readonly onePage: Pick<RuntimeBytes, 'weights' | 'cache' | 'scratch' | 'activations'>;
  readonly slots: number;
  /** Pages without which no row of a sensible length fits. */
  readonly leastPages: number;
  /** Pages beyond which more would never be used. */
  readonly mostPages: number;
}

/**
 * How many KV pages the cap leaves room for, everything else taken off first. Pure.
 * @throws MemoryBudgetError with the smallest cap that works
 */
export function planMemory(demand: MemoryDemand): { readonly pages: number; readonly reservedBytes: number } {
  const { capBytes, residentBytes, onePage, slots, leastPages, mostPages } = demand;
  const fixed = residentBytes + HEAP_MARGIN_BYTES + onePage.weights + onePage.scratch + onePage.activations * slots;
  const affordable = Math.floor((capBytes - fixed) / onePage.cache);
  if (affordable < leastPages) {
    throw new MemoryBudgetError('cpu', capBytes, fixed + leastPages * onePage.cache, 'the model with its working memory');
  }
  const pages = Math.min(affordable, mostPages);
  return { pages, reservedBytes: fixed - residentBytes + pages * onePage.cache };
}
