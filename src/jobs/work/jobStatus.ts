import { object } from '../../arguments/memberChecks.js';
import { isWaiting } from './shardStates.js';
import type { ShardState, WorkSource } from './WorkSource.js';

/** How far a job of a queue has come. */
export interface JobStatus {
  /** Rows of the input. */
  readonly rows: number;
  /** Shards in all, and how many of them are what. */
  readonly shards: Readonly<Record<ShardState['state'] | 'count', number>>;
  /** Whether nothing is left to do: each shard is committed, or given up. */
  readonly ended: boolean;
  readonly maxDeliver: number;
  readonly input: readonly string[];
  readonly parts: string;
  readonly output: string;
  /** Shards that are worked on, by whom. */
  readonly leased: readonly ShardState[];
  /** Shards that were given up, and others that have failed before, with the reasons. */
  readonly troubled: readonly ShardState[];
}

/** @throws UsageError where there is no such job; QueueError */
export async function jobStatus(source: WorkSource): Promise<JobStatus> {
  object('source', source);
  const { rows, maxDeliver, input, parts, output } = await source.manifest();
  const shards = await source.shards();
  const count = (state: ShardState['state']): number => shards.filter((shard) => shard.state === state).length;
  return {
    rows,
    shards: {
      count: shards.length,
      open: count('open'),
      leased: count('leased'),
      committed: count('committed'),
      failed: count('failed'),
    },
    ended: !shards.some(isWaiting),
    maxDeliver,
    input,
    parts,
    output,
    leased: shards.filter(({ state }) => state === 'leased'),
    troubled: shards.filter(({ state, reasons }) => state !== 'committed' && reasons.length > 0),
  };
}
