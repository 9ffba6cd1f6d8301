import type { JsMsg } from '@nats-io/jetstream';
import { found } from '../../../arguments/found.js';
import { isWithin, wholeRange } from '../../../arguments/NumberRange.js';
import { QueueError } from '../../../errors/QueueError.js';
import { UsageError } from '../../../errors/UsageError.js';
import {
  type JobManifest,
  type MetJob,
  MOST_QUEUED_BYTES,
  parseManifest,
  parseQueued,
  queuedJson,
} from '../JobManifest.js';
import { LAST_SECONDS, type Persistence, persistently, UNSTOPPED, withinSeconds } from '../persistently.js';
import { checkJobName, type QueueAddress } from '../QueueAddress.js';
import {
  cancelled,
  checkedState,
  committed,
  failed,
  givenBack,
  holds,
  isWaiting,
  leased,
  newAttempt,
  openShard,
  progressed,
} from '../shardStates.js';
import type { Lease, LeaseOptions, ShardState, WorkSource } from '../WorkSource.js';
import { connectNats, type Nats } from './connectNats.js';

/** How long the server holds a request for a shard: so long a worker that is told to stop may wait. */
const PULL_SECONDS = 1;
const ANSWER_SECONDS = 5;
/** A worker that is told to stop says so, and does not wait for a server that is away. */
const PARTING_SECONDS = 3;
const ASKED_AT_ONCE = 64;
/** Pulls that bring nothing, before a worker looks at the states; then twice as many, and so on. */
const FIRST_LOOK = 8;
const MOST_MESSAGE_BYTES = 64;
const CONSUMER = 'workers';
const BUCKET_STREAM = 'KV_spillway_';
/** The server's codes for a key that is not as it was. */
const CHANGED: readonly unknown[] = [10071, 10164];

/**
 * The shards of a job on NATS JetStream. A stream of the retention `workqueue` has a message for each shard that is to
 * be done, pulled by one durable consumer whose acknowledgement wait is the lease: `in progress` renews it, `nak` gives
 * it back. What became of a shard stands in a key-value bucket, each change of which says what it was before; the
 * message is acknowledged after that, so a message that comes again, late or twice, finds a shard that is done.
 * Deliveries are counted there too, not by the server, whose count has those that were given back.
 * @throws QueueError; UsageError where the packages of NATS are not installed
 */
export async function natsWork(
  address: QueueAddress,
  job: string,
  {
    signal,
    environment = process.env,
  }: {
    readonly signal?: AbortSignal | undefined;
    readonly environment?: Readonly<Record<string, string | undefined>>;
  } = {},
): Promise<WorkSource> {
  checkJobName(job);
  const nats = await connectNats(address, job, environment, signal);
  return new NatsWork(nats, `${address.name} job ${job}`, job, signal);
}

class NatsWork implements WorkSource {
  // Streams and buckets are files of the server; how it is configured it does not tell clients.
  readonly durability =
    'a power failure of the NATS server may take back what it acknowledged within its sync_interval (2 minutes, unless it is configured otherwise); `sync_interval: always` in its jetstream block rules that out';
  readonly #persistence: Persistence;
  /** The job that this source has met last, whatever has its name by now. */
  #known: MetJob | undefined;

  constructor(
    private readonly nats: Nats,
    readonly name: string,
    private readonly job: string,
    private readonly signal: AbortSignal | undefined,
  ) {
    this.#persistence = { name, secrets: nats.secrets, isTransient: nats.isTransient };
  }

  async submit(manifest: JobManifest): Promise<void> {
    const json = queuedJson('manifest', manifest);
    const { manager, kvm, libraries, replicas, js } = this.nats;
    const { count } = manifest.shards;
    const stream = this.#stream(manifest);
    await this.#do('submit the job', async () => {
      // Before anything is made: most are told here.
      if ((await this.#read('manifest', true)) !== undefined) throw this.#exists();
      await manager.streams.add({
        name: stream,
        subjects: [`${stream}.*`],
        retention: libraries.jetstream.RetentionPolicy.Workqueue,
        num_replicas: replicas,
        duplicate_window: 120e9,
      });
      await manager.consumers.add(stream, {
        durable_name: CONSUMER,
        ack_policy: libraries.jetstream.AckPolicy.Explicit,
        ack_wait: manifest.leaseSeconds * 1e9,
        // We count ourselves, and say so where it was too often.
        max_deliver: -1,
        max_ack_pending: Math.max(1000, count),
      });
      for (let from = 0; from < count; from += ASKED_AT_ONCE) {
        const shards = Array.from({ length: Math.min(ASKED_AT_ONCE, count - from) }, (_, at) => from + at);
        await Promise.all(
          shards.map((shard) => js.publish(`${stream}.${shard}`, String(shard), { msgID: String(shard) })),
        );
      }
      const bucket = await kvm.create(this.#bucketName, { replicas, maxValueSize: MOST_QUEUED_BYTES });
      // Last, and only if there is none: a job is there as a whole, or not at all.
      try {
        await bucket.put('manifest', json, { previousSeq: 0 });
      } catch (error) {
        if (!isChanged(error)) throw error;
        // Ours, where the answer was lost.
        if ((await this.#read('manifest')) === json) return;
        await manager.streams.delete(stream);
        throw this.#exists();
      }
    });
    this.#known = undefined;
  }

  async jobs(): Promise<readonly string[]> {
    return this.#do('list the jobs', async () => {
      const names: string[] = [];
      // A bucket is a stream of the server's, too.
      for await (const name of this.nats.manager.streams.names())
        if (name.startsWith(BUCKET_STREAM)) names.push(name.slice(BUCKET_STREAM.length));
      return names.sort();
    });
  }

  async manifest(): Promise<JobManifest> {
    return (await this.#readJob()).manifest;
  }

  async #readJob(): Promise<MetJob> {
    const json = await this.#do('read the job', () => this.#read('manifest', true));
    if (json === undefined) throw new UsageError(`${this.name}: found no such job, expected one that was submitted`);
    return (this.#known = { manifest: parseManifest(this.name, json), json });
  }

  async #met(): Promise<MetJob> {
    return this.#known ?? (await this.#readJob());
  }

  async agree(identity: string): Promise<string> {
    const { manifest } = await this.#met();
    const key = `${manifest.id}.identity`;
    return this.#do('agree on what is computed', async () => {
      const bucket = await this.#bucket();
      try {
        await bucket.put(key, identity, { previousSeq: 0 });
        return identity;
      } catch (error) {
        if (!isChanged(error)) throw error;
        return (await this.#read(key)) ?? identity;
      }
    });
  }

  async lease({ worker, signal }: LeaseOptions): Promise<Lease | undefined> {
    const met = await this.#met();
    const { manifest } = met;
    const stream = this.#stream(manifest);
    const stopped = (): boolean => signal?.aborted === true;
    let [waits, look] = [0, FIRST_LOOK];
    while (!stopped()) {
      const message = await this.#do('take a shard', () => this.#pull(stream), { signal });
      if (message === undefined) {
        // What is under way elsewhere may come back, and is a message until then. The states have the last word, and
        // are asked now and then in any case: a server that was killed may count messages that it delivers to nobody.
        waits += 1;
        const idle = (await this.#do('count what is left', () => this.#left(stream), { signal })) === 0;
        if (!idle && waits < look) continue;
        look = 2 * waits;
        if (!(await this.#isWaiting(stream, idle))) return undefined;
        continue;
      }
      if (stopped()) {
        message.nak();
        await this.#flush();
        break;
      }
      const shard = this.#shardOf(message, manifest);
      const attempt = newAttempt();
      const now = await this.#do(
        'take a shard',
        () =>
          this.#change(met, shard, (before) =>
            isWaiting(before) ? leased(before, attempt, worker, manifest.maxDeliver) : before,
          ),
        { signal },
      );
      if (now !== undefined && holds(now, attempt)) return this.#leaseOf(message, now, attempt, worker, met);
      // Done by somebody whose acknowledgement did not come through, or given up.
      await this.#acknowledge(message);
    }
    return undefined;
  }

  async shards(): Promise<readonly ShardState[]> {
    const met = await this.#met();
    const { count } = met.manifest.shards;
    const states: ShardState[] = [];
    for (let from = 0; from < count; from += ASKED_AT_ONCE) {
      const shards = Array.from({ length: Math.min(ASKED_AT_ONCE, count - from) }, (_, at) => from + at);
      const some = await this.#do('read the shards', () => Promise.all(shards.map((shard) => this.#state(met, shard))));
      states.push(...some.map(({ state }) => state));
    }
    return states;
  }

  async cancel(reason: string): Promise<number> {
    const met = await this.#met();
    let given = 0;
    for (const before of await this.shards()) {
      if (!isWaiting(before)) continue;
      const change = (): Promise<ShardState | undefined> =>
        this.#change(met, before.shard, (now) => cancelled(now, reason));
      if ((await this.#do('cancel a shard', change)) !== undefined) given += 1;
    }
    // Workers that wait for one need not wait for its lease to end.
    await this.#do('cancel the job', () => this.nats.manager.streams.purge(this.#stream(met.manifest)));
    return given;
  }

  async remove(): Promise<void> {
    const { manager } = this.nats;
    const prefix = `${this.#prefix}_`;
    await this.#do('remove the job', async () => {
      for await (const name of manager.streams.names())
        if (name.startsWith(prefix) && /^[0-9a-f]{16}$/.test(name.slice(prefix.length)))
          await manager.streams.delete(name);
      if ((await this.#read('manifest', true)) !== undefined) await (await this.#bucket()).destroy();
    });
    this.#known = undefined;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    // Who was stopped has given back what it had, and waits for a server that is away no longer.
    if (this.signal?.aborted !== true) await this.#flush();
    await withinSeconds(LAST_SECONDS, this.nats.connection.close()).catch(() => undefined);
  }

  #leaseOf(message: JsMsg, { shard, deliveries }: ShardState, attempt: string, worker: string, met: MetJob): Lease {
    const { maxDeliver } = met.manifest;
    return {
      shard,
      attempt,
      delivery: deliveries,
      renew: async (progress) => {
        message.working();
        const change = (): Promise<ShardState | undefined> =>
          this.#change(met, shard, (before) => (holds(before, attempt) ? progressed(before, progress) : undefined));
        return (await this.#do('renew a lease', change, { seconds: 0 })) !== undefined;
      },
      commit: async (signal) => {
        const now = await this.#do(
          'commit a shard',
          () => this.#change(met, shard, (before) => committed(before, attempt, worker)),
          { signal },
        );
        await this.#acknowledge(message);
        return now !== undefined;
      },
      giveBack: async () => {
        const change = (): Promise<ShardState | undefined> =>
          this.#change(met, shard, (before) => givenBack(before, attempt));
        const now = await this.#do('give a shard back', change, { seconds: PARTING_SECONDS, signal: UNSTOPPED });
        if (now !== undefined) message.nak();
        await this.#flush();
      },
      fail: async (reason, signal) => {
        const now = await this.#do(
          'say that a shard failed',
          () => this.#change(met, shard, (before) => failed(before, attempt, reason, maxDeliver)),
          { signal },
        );
        if (now?.state === 'failed') await this.#acknowledge(message);
        else if (now !== undefined) message.nak();
        await this.#flush();
      },
    };
  }

  /**
   * Changes a shard's state as it is now. @returns undefined where there is nothing to change: another one has it, or
   * another job has the name
   */
  async #change(
    met: MetJob,
    shard: number,
    next: (before: ShardState) => ShardState | undefined,
  ): Promise<ShardState | undefined> {
    const bucket = await this.#bucket();
    for (;;) {
      if ((await this.#read('manifest')) !== met.json) return undefined;
      const { state, revision } = await this.#state(met, shard);
      const now = next(state);
      if (now === undefined || now === state) return now;
      const { shard: _shard, ...value } = now;
      try {
        await bucket.put(keyOf(met.manifest, shard), JSON.stringify(value), { previousSeq: revision });
        return now;
      } catch (error) {
        if (!isChanged(error)) throw error;
      }
    }
  }

  async #state(
    { manifest }: MetJob,
    shard: number,
  ): Promise<{ readonly state: ShardState; readonly revision: number }> {
    const bucket = await this.#bucket();
    const entry = await bucket.get(keyOf(manifest, shard));
    if (entry === null) return { state: openShard(shard), revision: 0 };
    const value = parseQueued(this.name, `shard ${shard}`, entry.string());
    return { state: checkedState(this.name, shard, value), revision: entry.revision };
  }

  /** @param orNone there may be no bucket */
  async #read(key: string, orNone = false): Promise<string | undefined> {
    try {
      return (await (await this.#bucket()).get(key))?.string();
    } catch (error) {
      if (orNone && this.nats.isMissing(error)) return undefined;
      throw error;
    }
  }

  async #pull(stream: string): Promise<JsMsg | undefined> {
    const consumer = await this.nats.js.consumers.get(stream, CONSUMER);
    const next = consumer.next({ expires: PULL_SECONDS * 1000 });
    return (await withinSeconds(PULL_SECONDS + ANSWER_SECONDS, next)) ?? undefined;
  }

  /**
   * Tells whether shards are still to be done. Where their messages are gone these are put back: a server that lost its
   * last seconds may have lost more of one than of the other.
   * @param idle whether there are no messages
   */
  async #isWaiting(stream: string, idle: boolean): Promise<boolean> {
    const waiting = (await this.shards()).filter(isWaiting);
    if (idle)
      await this.#do('put shards back', () =>
        Promise.all(
          waiting.map(async ({ shard }) => {
            // Several workers may find them gone at once: one message is enough for what became of a shard since.
            const { revision } = await this.#state(await this.#met(), shard);
            await this.nats.js.publish(`${stream}.${shard}`, String(shard), { msgID: `${shard}@${revision}` });
          }),
        ),
      );
    return waiting.length > 0;
  }

  /** Messages that somebody has, or is to get. */
  async #left(stream: string): Promise<number> {
    const { num_pending, num_ack_pending } = await this.nats.manager.consumers.info(stream, CONSUMER);
    return num_pending + num_ack_pending;
  }

  /** @throws QueueError for a message that is none of ours, which is taken out */
  #shardOf(message: JsMsg, { shards }: JobManifest): number {
    const text = message.data.length > MOST_MESSAGE_BYTES ? undefined : message.string();
    const shard = text !== undefined && /^\d+$/.test(text) ? Number(text) : NaN;
    const range = wholeRange(0, shards.count - 1);
    if (isWithin(shard, range)) return shard;
    message.term();
    throw new QueueError(
      this.name,
      `found a message of ${text === undefined ? `${message.data.length} bytes` : found(text)}, expected the number of a shard from 0 to ${shards.count - 1}; it was taken out of the queue`,
    );
  }

  /** A message whose answer is lost comes again, and is looked at then. */
  async #acknowledge(message: JsMsg): Promise<void> {
    await withinSeconds(ANSWER_SECONDS, message.ackAck({ timeout: ANSWER_SECONDS * 1000 })).catch(() => false);
  }

  /** Waits until the server has what was said to it, if it is there. */
  async #flush(): Promise<void> {
    await withinSeconds(PARTING_SECONDS, this.nats.connection.flush()).catch(() => undefined);
  }

  #bucket(): ReturnType<Nats['kvm']['open']> {
    return this.nats.kvm.open(this.#bucketName);
  }

  #do<T>(
    what: string,
    work: () => Promise<T>,
    options: { readonly seconds?: number; readonly signal?: AbortSignal | undefined } = {},
  ): Promise<T> {
    return persistently(this.#persistence, what, work, { ...options, signal: options.signal ?? this.signal });
  }

  #exists(): UsageError {
    return new UsageError(`${this.name}: found a job of that name, expected none; \`overwrite\` replaces it`);
  }

  get #prefix(): string {
    return `SPILLWAY_${this.job}`;
  }

  #stream({ id }: JobManifest): string {
    return `${this.#prefix}_${id}`;
  }

  get #bucketName(): string {
    return `spillway_${this.job}`;
  }
}

/**
 * The key is of that job alone: whoever still works on one that was replaced by another of its name says nothing of the
 * other.
 */
function keyOf({ id }: JobManifest, shard: number): string {
  return `${id}.shard.${shard}`;
}

/** Tells whether a key was changed by somebody else. */
function isChanged(error: unknown): boolean {
  return error instanceof Error && CHANGED.includes((error as { readonly code?: unknown }).code);
}
