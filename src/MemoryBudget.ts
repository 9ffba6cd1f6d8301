import { parseBytes, type Size } from './units.js';

type Where = 'here' | 'elsewhere';

/**
 * Memory of one process that several engines share: each engine is opened with what the others leave of it, and one
 * that does not fit is refused by number. What the process takes in any case, its program and its JavaScript heap,
 * counts once. An engine takes all that is of use to it, so the first of several says by `cpuMemory` how much of the
 * budget it may have; closing it gives that back. A process's other threads have budgets of their own; what processes
 * beside it may take can be reserved, too (`reserve`).
 *
 * @example
 * const memoryBudget = new MemoryBudget('3GiB');
 * const small = await Engine.open({ model: 'smollm2-135m-instruct', memoryBudget, cpuMemory: '1GiB' });
 * const large = await Engine.open({ model: 'hf:owner/large', memoryBudget });
 */
export class MemoryBudget {
  /** Cap on the process's resident memory. */
  readonly bytes: number;
  private readonly reservations = new Set<{ readonly bytes: number; readonly where: Where }>();

  /** @throws UsageError for what is no size */
  constructor(size: Size) {
    this.bytes = parseBytes(size, 'MemoryBudget');
  }

  /** The bytes of the budget that open engines hold, or others, beside what the process takes in any case. */
  get reservedBytes(): number {
    return this.sum(['here', 'elsewhere']);
  }

  /** The bytes of them that are, or will be, this process's own. */
  get reservedHereBytes(): number {
    return this.sum(['here']);
  }

  /**
   * Takes memory off the budget for an engine.
   * @param where whose resident memory it will be: this process's, or that of another one, such as a query of DuckDB
   * has (`DUCKDB_BYTES`)
   * @returns gives it back; idempotent
   */
  reserve(bytes: number, where: Where = 'here'): () => void {
    const reservation = { bytes, where };
    this.reservations.add(reservation);
    return () => {
      this.reservations.delete(reservation);
    };
  }

  private sum(places: readonly Where[]): number {
    let sum = 0;
    for (const { bytes, where } of this.reservations) if (places.includes(where)) sum += bytes;
    return sum;
  }
}
