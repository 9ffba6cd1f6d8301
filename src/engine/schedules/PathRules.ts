import type { RequiredMoves } from './PathRecord.js';
import type { RowId } from '../grid/Square.js';
import type { Moved } from '../grid/Task.js';

/** From `at` on, this much of a tier is in use. */
export interface TierUsage {
  readonly at: number;
  readonly tier: string;
  readonly usedBytes: number;
}

/** What a path can be judged by beside its own records. Each is left out of the judgement where it is not given. */
export interface PathRules {
  /**
   * What the placement says has to be moved for each square: it must have been, loads before compute and after the
   * stores of what they load, stores after compute. Without it, the loads that there are must have ended before
   * compute.
   */
  readonly moves?: RequiredMoves;
  /** Most bytes of each tier, and what was in use of them over time. */
  readonly capacityBytes?: Readonly<Record<string, number>>;
  readonly usage?: readonly TierUsage[];
  /**
   * Most bytes of each tier that weights, cache and hidden states may take which were loaded, or are on their way
   * elsewhere: the buffers that look-ahead, slots and window ask for.
   */
  readonly stagingBytes?: Readonly<Record<Moved, Readonly<Record<string, number>>>>;
  /** When the memory of each row was taken and given back. */
  readonly lives?: ReadonlyMap<RowId, { readonly from: number; readonly until: number }>;
}
