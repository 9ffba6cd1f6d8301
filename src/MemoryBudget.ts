import { parseBytes, type Size } from './units.js';

/**
 * Memory of one process that several engines share: each engine is opened with what the others leave of it, and one
 * that does not fit is refused by number. What the process takes in any case, its program and its JavaScript heap,
 * counts once. An engine takes all that is of use to it, so the first of several says by `cpuMemory` how much of the
 * budget it may have; closing it gives that back. A process's other threads have budgets of their own.
 *
 * @example
 * const memoryBudget = new MemoryBudget('3GiB');
 * const small = await Engine.open({ model: 'smollm2-135m-instruct', memoryBudget, cpuMemory: '1GiB' });
 * const large = await Engine.open({ model: 'hf:owner/large', memoryBudget });
 */
export class MemoryBudget {
  /** Cap on the process's resident memory. */
  readonly bytes: number;
  private readonly reservations = new Set<{ readonly bytes: number }>();

  /** @throws UsageError for what is no size */
  constructor(size: Size) {
    this.bytes = parseBytes(size, 'MemoryBudget');
  }

  /** The bytes of the budget that open engines hold, beside what the process takes in any case. */
  get reservedBytes(): number {
    let sum = 0;
    for (const { bytes } of this.reservations) sum += bytes;
    return sum;
  }

  /** Takes memory off the budget for an engine. @returns gives it back; idempotent */
  reserve(bytes: number): () => void {
    const reservation = { bytes };
    this.reservations.add(reservation);
    return () => {
      this.reservations.delete(reservation);
    };
  }
}
