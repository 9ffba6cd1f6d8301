import { MemoryBudgetError } from '../../errors/MemoryBudgetError.js';
import { HEAP_MARGIN_BYTES, type ProcessBytes } from '../../plan/reserves.js';

export interface MemoryDemand extends ProcessBytes {
  /** Cap on resident memory. */
  readonly capBytes: number;
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
  const { capBytes, residentBytes, laterBytes, weightBytes, workingBytes, pageBytes, leastPages, mostPages } = demand;
  const fixed = residentBytes + HEAP_MARGIN_BYTES + weightBytes + workingBytes;
  const affordable = Math.floor((capBytes - fixed) / pageBytes);
  if (affordable < leastPages) {
    throw new MemoryBudgetError(
      'cpu',
      capBytes,
      fixed - residentBytes + laterBytes + leastPages * pageBytes,
      'the model with its working memory',
    );
  }
  const pages = Math.min(affordable, mostPages);
  return { pages, reservedBytes: fixed - residentBytes + pages * pageBytes };
}
