import type { JobManifest } from './JobManifest.js';

/**
 * A queue of the shards of one job, from which any number of workers take them. What it promises:
 *
 * - A shard is leased to one worker at a time, for `leaseSeconds` of the queue's clock, never a worker's; it goes to
 *   another one when that is over and nobody has renewed it, or when it is given back.
 * - Of a shard one attempt is committed, the first one that asks, and that is for good: another commit is refused,
 *   whoever had the lease. What attempts leave stands in places of their own, so nothing that is committed can be
 *   overwritten.
 * - A shard whose leases ended without a commit `maxDeliver` times, but for those that were given back, is failed: it
 *   is leased no more.
 *
 * What it brings is untrusted: whoever implements this hands on manifests by `parseManifest`.
 */
export interface WorkSource extends AsyncDisposable {
  /** The name of queue and job, for messages: without credentials. */
  readonly name: string;
  /**
   * The changes that a power failure of the queue's server may take back, for whoever puts a job there; undefined:
   * none.
   */
  readonly durability?: string;
  /** Puts a job there, with all its shards. @throws UsageError if there is one of its name; QueueError */
  submit(manifest: JobManifest): Promise<void>;
  /** Names of all jobs of the queue, in order. @throws QueueError */
  jobs(): Promise<readonly string[]>;
  /** @throws UsageError if there is no such job; QueueError for one that cannot be read */
  manifest(): Promise<JobManifest>;
  /**
   * Agrees on what decides the results (model, instruction set, options, input), so that all parts go together.
   * @returns what the first one said who was asked
   */
  agree(identity: string): Promise<string>;
  /**
   * The next shard, as soon as there is one: while others are at work, one of theirs may come back.
   * @returns undefined once every shard is committed or failed, and when the signal fires
   */
  lease(options: LeaseOptions): Promise<Lease | undefined>;
  /** All shards, in order. */
  shards(): Promise<readonly ShardState[]>;
  /**
   * Gives up all shards that are not done, whoever works on them: they are told with their next renewal. @param reason
   * for people @returns how many these were
   */
  cancel(reason: string): Promise<number>;
  /** Takes the job away, whatever its state. Parts stay. */
  remove(): Promise<void>;
}

export interface LeaseOptions {
  /** Who asks, for people. */
  readonly worker: string;
  readonly signal?: AbortSignal | undefined;
}

/** A shard on loan. */
export interface Lease {
  readonly shard: number;
  /** 16 hexadecimal digits that no other lease has: what the attempt leaves is called by them. */
  readonly attempt: string;
  /** Which one this is that counts against `maxDeliver`, from 1. */
  readonly delivery: number;
  /**
   * Begins `leaseSeconds` anew. @param progress how far the shard is, for people
   * @returns false if the shard is not ours any more @throws QueueError
   */
  renew(progress?: ShardProgress): Promise<boolean>;
  /**
   * Makes this attempt's part the shard's. May be asked again where the answer was lost.
   * @param signal once it fires a queue that is away is waited for no longer, and whether it is committed is not known
   * @returns false if another attempt is committed
   */
  commit(signal?: AbortSignal): Promise<boolean>;
  /** Others may have the shard at once, and the lease does not count. Nothing where it is not ours any more. */
  giveBack(): Promise<void>;
  /**
   * The attempt came to nothing; others may try. Nothing where the shard is not ours any more. @param reason for people
   */
  fail(reason: string, signal?: AbortSignal): Promise<void>;
}

/** How far a shard is that somebody works on. */
export interface ShardProgress {
  /** Its rows that are done. */
  readonly rows: number;
  /** That its worker does. */
  readonly rowsPerSecond: number;
}

/** The known state of a shard. */
export interface ShardState {
  readonly shard: number;
  readonly state: 'open' | 'leased' | 'committed' | 'failed';
  /** Leases so far, without those that were given back. */
  readonly deliveries: number;
  /** The lease's attempt, or the one whose part counts. */
  readonly attempt?: string;
  /** Who has it, or had it last. */
  readonly worker?: string;
  /** A lease's progress, as its worker has said it last. */
  readonly progress?: ShardProgress;
  /** Why the last leases came to nothing, in words. */
  readonly reasons: readonly string[];
}
