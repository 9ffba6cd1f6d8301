import { UsageError } from '../../errors/UsageError.js';
import { checkManifest, type JobManifest } from './JobManifest.js';
import { pause } from './persistently.js';
import {
  cancelled,
  committed,
  failed,
  givenBack,
  holds,
  isWaiting,
  leased,
  newAttempt,
  openShard,
  progressed,
} from './shardStates.js';
import type { Lease, LeaseOptions, ShardState, WorkSource } from './WorkSource.js';

const LOOK_SECONDS = 0.02;

/**
 * A queue within this process: what a queue has to do, in its simplest form. For tests, and several engines of one
 * process.
 * @param seconds its clock
 */
export function memoryWork(seconds: () => number = () => performance.now() / 1000): WorkSource {
  return new MemoryWork(seconds);
}

class MemoryWork implements WorkSource {
  readonly name = 'memory';
  #manifest: JobManifest | undefined;
  #identity: string | undefined;
  #shards: ShardState[] = [];
  readonly #expires = new Map<number, number>();

  constructor(private readonly seconds: () => number) {}

  async submit(manifest: JobManifest): Promise<void> {
    checkManifest(manifest);
    if (this.#manifest !== undefined)
      throw new UsageError(`${this.name}: found a job, expected none; \`overwrite\` replaces it`);
    this.#manifest = manifest;
    this.#shards = Array.from({ length: manifest.shards.count }, (_, shard) => openShard(shard));
    return Promise.resolve();
  }

  async jobs(): Promise<readonly string[]> {
    return Promise.resolve(this.#manifest ? [this.name] : []);
  }

  async manifest(): Promise<JobManifest> {
    return Promise.resolve(this.#known());
  }

  async agree(identity: string): Promise<string> {
    this.#known();
    return Promise.resolve((this.#identity ??= identity));
  }

  async lease({ worker, signal }: LeaseOptions): Promise<Lease | undefined> {
    const job = this.#known();
    const { maxDeliver } = job;
    while (signal?.aborted !== true && this.#manifest === job && this.#shards.some(isWaiting)) {
      for (const before of this.#shards) {
        if (!isWaiting(before) || (before.state === 'leased' && this.seconds() < this.#expiryOf(before.shard)))
          continue;
        const attempt = newAttempt();
        const now = this.#set(leased(before, attempt, worker, maxDeliver));
        if (holds(now, attempt)) return this.#leaseOf(job, now, attempt, worker);
      }
      await pause(LOOK_SECONDS, signal);
    }
    return undefined;
  }

  async shards(): Promise<readonly ShardState[]> {
    this.#known();
    return Promise.resolve(this.#shards);
  }

  async cancel(reason: string): Promise<number> {
    this.#known();
    const given = this.#shards.flatMap((before) => cancelled(before, reason) ?? []);
    for (const state of given) this.#set(state);
    return Promise.resolve(given.length);
  }

  async remove(): Promise<void> {
    this.#manifest = this.#identity = undefined;
    this.#shards = [];
    return Promise.resolve();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    return Promise.resolve();
  }

  #leaseOf(job: JobManifest, { shard, deliveries }: ShardState, attempt: string, worker: string): Lease {
    const change = (next: (before: ShardState) => ShardState | undefined): boolean => {
      const before = this.#manifest === job ? this.#shards[shard] : undefined;
      const now = before && next(before);
      if (now !== undefined) this.#set(now);
      return now !== undefined;
    };
    const { maxDeliver } = job;
    return {
      shard,
      attempt,
      delivery: deliveries,
      renew: (progress) =>
        Promise.resolve(change((before) => (holds(before, attempt) ? progressed(before, progress) : undefined))),
      commit: () => Promise.resolve(change((before) => committed(before, attempt, worker))),
      giveBack: async () => {
        change((before) => givenBack(before, attempt));
        return Promise.resolve();
      },
      fail: async (reason) => {
        change((before) => failed(before, attempt, reason, maxDeliver));
        return Promise.resolve();
      },
    };
  }

  #expiryOf(shard: number): number {
    return this.#expires.get(shard) ?? 0;
  }

  #set(state: ShardState): ShardState {
    this.#shards = this.#shards.with(state.shard, state);
    this.#expires.set(state.shard, this.seconds() + this.#known().leaseSeconds);
    return state;
  }

  #known(): JobManifest {
    if (this.#manifest === undefined) throw new UsageError(`${this.name}: found no job, expected one`);
    return this.#manifest;
  }
}
