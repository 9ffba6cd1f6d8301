import type { CostAt } from '../CostModel.js';
import type { ScheduleName } from '../../engine/schedules/blockSchedules.js';
import type { Compression, Policy } from '../Policy.js';

/** What the search may choose from. A list of one value settles the question. */
export interface SearchSpace {
  readonly schedules: readonly ScheduleName[];
  /** Default: every size worth a try, to `mostBatchSize`. */
  readonly batchSizes?: readonly number[] | undefined;
  readonly batchCounts?: readonly number[] | undefined;
  readonly mostBatchSize: number;
  readonly mostBatches: number;
  readonly compressWeights: readonly Compression[];
  readonly compressCache: readonly Compression[];
  readonly cpuAttention: readonly boolean[];
  readonly tokensPerSquare?: number | undefined;
  readonly threads?: number | undefined;
}

export interface RankedPolicy {
  readonly policy: Policy;
  readonly at: CostAt;
}
