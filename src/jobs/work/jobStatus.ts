import { object } from '../../arguments/memberChecks.js';
import { rowsOfShard } from '../shards/Shard.js';
import { isWaiting } from './shardStates.js';
import type { ShardState, WorkSource } from './WorkSource.js';

/** How far a job of a queue has come. */
export interface JobStatus {
  /** Rows of the input. */
  readonly rows: number;
  /**
   * Rows of the input that are done: those of committed shards, and what is done of leased ones, as far as workers have
   * said.
   */
  readonly rowsDone: number;
  /**
   * The seconds left for shards that are not given up, at the pace of those who work now; undefined where nobody does.
   */
  readonly secondsLeft?: number;
  /** Shards in all, and how many of them are what. */
  readonly shards: Readonly<Record<ShardState['state'] | 'count', number>>;
  /** True where nothing is left to do: each shard is committed, or given up. */
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
  const { rows, maxDeliver, input, parts, output, shards: dealt } = await source.manifest();
  const shards = await source.shards();
  const count = (state: ShardState['state']): number => shards.filter((shard) => shard.state === state).length;
  const rowsIn = ({ shard }: ShardState): number => rowsOfShard(rows, { index: shard, ...dealt });
  const doneOf = (each: ShardState): number =>
    each.state === 'committed' ? rowsIn(each) : Math.min(rowsIn(each), each.progress?.rows ?? 0);
  const sum = (some: readonly ShardState[], of: (shard: ShardState) => number): number =>
    some.reduce((total, each) => total + of(each), 0);
  const waiting = shards.filter(isWaiting);
  const pace = sum(waiting, ({ progress }) => progress?.rowsPerSecond ?? 0);
  return {
    rows,
    rowsDone: sum(shards, doneOf),
    ...(pace > 0 && { secondsLeft: sum(waiting, (each) => rowsIn(each) - doneOf(each)) / pace }),
    shards: {
      count: shards.length,
      open: count('open'),
      leased: count('leased'),
      committed: count('committed'),
      failed: count('failed'),
    },
    ended: waiting.length === 0,
    maxDeliver,
    input,
    parts,
    output,
    leased: shards.filter(({ state }) => state === 'leased'),
    troubled: shards.filter(({ state, reasons }) => state !== 'committed' && reasons.length > 0),
  };
}
