import { MemoryBudgetError } from '../../errors/MemoryBudgetError.js';
import { HEAP_MARGIN_BYTES, NEXT_START_BYTES } from '../reserves.js';

export interface MemoryDemand {
  /** Cap on resident memory. */
  readonly capBytes: number;
  /** What the process holds before the runtime is opened. */
  readonly residentBytes: number;
  readonly weightBytes: number;
  /** Scratch, hidden states of all slots, buffers. */
  readonly workingBytes: number;
  /** One page of cache in every layer. */
  readonly pageBytes: number;
  /** Pages without which no row of a sensible length fits. */
  readonly leastPages: number;
  /** Pages beyond which more would never be used. */
  readonly mostPages: number;
}

/**
 * How many KV pages the cap leaves room for, everything else taken off first. Pure.
 * @throws MemoryBudgetError with the smallest cap that works at this start and at the next ones
 */
export function planMemory(demand: MemoryDemand): { readonly pages: number; readonly reservedBytes: number } {
  const { capBytes, residentBytes, weightBytes, workingBytes, pageBytes, leastPages, mostPages } = demand;
  const fixed = residentBytes + HEAP_MARGIN_BYTES + weightBytes + workingBytes;
  const affordable = Math.floor((capBytes - fixed) / pageBytes);
  if (affordable < leastPages) {
    throw new MemoryBudgetError('cpu', capBytes, fixed + leastPages * pageBytes + NEXT_START_BYTES, 'the model with its working memory');
  }
  const pages = Math.min(affordable, mostPages);
  return { pages, reservedBytes: fixed - residentBytes + pages * pageBytes };
}
