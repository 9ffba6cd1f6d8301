import { formatBytes } from '../units.js';
import { SpillwayError } from './SpillwayError.js';

/**
 * The plan cannot fit the given memory; `neededBytes` is the smallest budget with which the same call works, in a
 * process started anew, too: for the processor's memory the sum is `hostMemory`'s (engine/open), for a GPU's
 * `gpuMemory`'s. Of a prediction (`predict`) it is what the cost model counts.
 */
export class MemoryBudgetError extends SpillwayError {
  readonly code = 'memory-budget';

  constructor(
    readonly tier: 'gpu' | 'cpu' | 'disk',
    readonly availableBytes: number,
    readonly neededBytes: number,
    what: string,
    /**
     * Bytes that others hold of a budget that they share with this engine; both other numbers are the budget's
     * then.
     */
    readonly othersBytes = 0,
  ) {
    super(
      othersBytes > 0
        ? `${what} does not fit: of the ${formatBytes(availableBytes)} of memoryBudget others hold ${formatBytes(othersBytes)}; ` +
            `the smallest budget that works beside them is ${formatBytes(neededBytes)} (\`new MemoryBudget(${neededBytes})\`)`
        : `${what} does not fit: ${tier} memory is capped at ${formatBytes(availableBytes)}; the smallest budget that works is ` +
            `${formatBytes(neededBytes)} (\`${tier}Memory: ${neededBytes}\`)`,
    );
  }
}
