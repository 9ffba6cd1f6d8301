import { hostname } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import { checkMembers, type Check } from '../../arguments/checkMembers.js';
import { checkFunction, checkSignal } from '../../arguments/checks.js';
import { found } from '../../arguments/found.js';
import { object, text } from '../../arguments/memberChecks.js';
import { errorOf } from '../../errors/errorOf.js';
import { InterruptedError } from '../../errors/InterruptedError.js';
import { JobFileError } from '../../errors/JobFileError.js';
import { QueueError } from '../../errors/QueueError.js';
import { type ErrorCode, SpillwayError } from '../../errors/SpillwayError.js';
import { UsageError } from '../../errors/UsageError.js';
import { checkRowGenerator } from '../checkJobOptions.js';
import { type InputPaths, inputFiles, isInputPaths } from '../input/inputFiles.js';
import { Job } from '../Job.js';
import type { JobOptions, JobSummary } from '../JobOptions.js';
import { differencesOf, type JobIdentity } from '../record/jobRecord.js';
import type { RunJobOptions } from '../runJob.js';
import {
  isThere,
  makeAttempt,
  markPaths,
  partPath,
  removeAttempt,
  removeOtherAttempts,
  type ShardPlace,
  startAnew,
  takeOver,
} from './attempts.js';
import { RowsUnderWay } from './RowsUnderWay.js';
import { checkFingerprint, type JobManifest, parseQueued, queuedJson, stoppable } from './JobManifest.js';
import type { Lease, ShardProgress, WorkSource } from './WorkSource.js';

export interface RunWorkOptions {
  readonly source: WorkSource;
  /** An `Engine`, or whatever generates rows as one does. One serves all shards. */
  readonly engine: RunJobOptions['engine'];
  /** The folder of the parts, as this machine sees it. Default: what the job says. */
  readonly parts?: string;
  /** The files of rows, as this machine sees them. Default: what the job says. */
  readonly input?: InputPaths;
  /** The worker's name, for people. Default: host and process. */
  readonly worker?: string;
  /** Once it fires the shard is given back, and the run ends. */
  readonly signal?: AbortSignal;
  /** Called with each shard that is taken, and with what became of it. */
  readonly onShard?: (event: ShardEvent) => void;
}

export interface ShardEvent {
  readonly shard: number;
  /**
   * `lost`: somebody else has it, as the lease was over, or has committed it before. `failed`: the engine failed at it;
   * others may try.
   */
  readonly what: 'leased' | 'committed' | 'lost' | 'givenBack' | 'failed';
  /** Which lease of the shard it is, from 1. */
  readonly delivery: number;
  /** Summary of a committed shard. */
  readonly summary?: JobSummary;
  /** Why it failed. */
  readonly reason?: string;
}

/** One worker's work, in figures. */
export interface WorkSummary {
  /** Shards whose parts are this worker's. */
  readonly committed: number;
  /** Shards that others had in the end. */
  readonly lost: number;
  /** Results in its parts, and those with an error among them. */
  readonly results: number;
  readonly failed: number;
}

const CHECKS: Readonly<Record<keyof RunWorkOptions, Check>> = {
  source: object,
  engine: (_name, value) => {
    checkRowGenerator(value);
  },
  parts: text("a folder's path"),
  input: (name, value) => {
    if (!isInputPaths(value))
      throw new UsageError(`${name}: found ${found(value)}, expected a file's path, or several`);
  },
  worker: text(),
  signal: checkSignal,
  onShard: checkFunction,
};

/** Renewals in the time of a lease: two may go wrong. */
const RENEWALS = 3;
/** A run that is told to stop has so long until its shard is given back all the same. */
const PARTING_SECONDS = 1;
/** Failures that are a shard's, or may be; all others are the machine's, or its caller's. */
const OF_A_SHARD: ReadonlySet<ErrorCode> = new Set(['task', 'row', 'schedule']);
/** So many shards that fail one after the other are rather the machine's fault. */
const FAILED_IN_A_ROW = 2;

/**
 * Works on a job of a queue, shard after shard, until all are committed or given up. Any number of workers may, and may
 * come and go: a shard whose worker went away is done by another, which goes on with what the first one has finished.
 * Each row is in what is collected once, whatever happens: of each shard the first whole part counts, and all parts are
 * of the same model, options, input and kind of instruction set, which the first worker settles.
 *
 * A failure of the engine counts against the shard. What is wrong with this machine (no memory, no model, a full disk,
 * another input) does not: the shard is given back, and the error ends the run.
 * @throws UsageError, also where this machine's results would not be the others'; JobFileError; QueueError;
 * InterruptedError when the signal fires; and what the engine throws for two shards in a row
 */
export async function runWork(options: RunWorkOptions): Promise<WorkSummary> {
  checkMembers('options', options, CHECKS);
  checkRowGenerator(options.engine);
  const { source, worker = `${hostname()}:${process.pid}`, signal, onShard } = options;
  const work = new Work(options, await source.manifest());
  const totals = { committed: 0, lost: 0, results: 0, failed: 0 };
  const failedShards = new Set<number>();
  for (;;) {
    const lease = await source.lease({ worker, signal });
    if (signal?.aborted === true) {
      await lease?.giveBack();
      throw new InterruptedError(signal.reason);
    }
    if (lease === undefined) return totals;
    const { shard, delivery } = lease;
    onShard?.({ shard, delivery, what: 'leased' });
    const { event, error } = await work.shard(lease);
    onShard?.({ shard, delivery, ...event });
    if (error !== undefined && event.what !== 'failed') throw error;
    if (event.what === 'lost') totals.lost += 1;
    if (error !== undefined && failedShards.add(shard).size >= FAILED_IN_A_ROW) throw error;
    const { summary } = event;
    if (summary === undefined) continue;
    failedShards.clear();
    totals.committed += 1;
    totals.results += summary.done + summary.kept;
    totals.failed += summary.failed + summary.keptFailed;
  }
}

interface ShardEnd {
  readonly event: Pick<ShardEvent, 'what' | 'summary' | 'reason'>;
  readonly error?: Error;
}

class Work {
  readonly #parts: string;

  constructor(
    private readonly options: RunWorkOptions,
    private readonly manifest: JobManifest,
  ) {
    this.#parts = options.parts ?? manifest.parts;
  }

  /** Does a shard that is leased, and says what became of it. */
  async shard(lease: Lease): Promise<ShardEnd> {
    const { signal } = this.options;
    const place: ShardPlace = { parts: this.#parts, manifest: this.manifest, shard: lease.shard };
    const lost = new AbortController();
    const progress = new PartProgress();
    const renewal = this.#keepRenewing(lease, lost, progress);
    const parting = signal && givingBack(lease, signal);
    let committing = false;
    try {
      const stop = signal === undefined ? lost.signal : AbortSignal.any([signal, lost.signal]);
      const summary = await this.#run(place, lease.attempt, stop, progress);
      committing = true;
      // Whoever had it meanwhile: a part that is whole is as good as any.
      if (!(await lease.commit(signal))) {
        await removeAttempt(place, lease.attempt);
        return { event: { what: 'lost' } };
      }
      await removeOtherAttempts(place, lease.attempt);
      return { event: { what: 'committed', summary } };
    } catch (error) {
      return await this.#ended(place, lease, { lost: lost.signal.aborted, committing }, error);
    } finally {
      renewal.stop();
      await parting?.settled();
    }
  }

  /** @param committing whether the part may be the shard's by now: the answer was lost, and nobody may remove it */
  async #ended(
    place: ShardPlace,
    lease: Lease,
    { lost, committing }: { readonly lost: boolean; readonly committing: boolean },
    error: unknown,
  ): Promise<ShardEnd> {
    if (this.options.signal?.aborted === true) {
      await lease.giveBack().catch(() => undefined);
      return { event: { what: 'givenBack' }, error: new InterruptedError(this.options.signal.reason) };
    }
    if (committing) return { event: { what: 'lost' }, error: errorOf(error) };
    // Whoever commits a shard removes what others have left of it, under the hands of a worker that does not know yet.
    const ours = !lost && (await lease.renew().catch(() => isThere(place, lease.attempt)));
    if (!ours) {
      await removeAttempt(place, lease.attempt);
      return { event: { what: 'lost' } };
    }
    if (error instanceof QueueError) return { event: { what: 'lost' }, error };
    if (!isOfShard(error)) {
      await lease.giveBack().catch(() => undefined);
      return { event: { what: 'givenBack' }, error: errorOf(error) };
    }
    const failure = errorOf(error);
    await lease.fail(failure.message, this.options.signal);
    return { event: { what: 'failed', reason: failure.message }, error: failure };
  }

  /** Answers the rows of a shard into the attempt's part. */
  async #run(place: ShardPlace, attempt: string, signal: AbortSignal, progress: PartProgress): Promise<JobSummary> {
    const { engine } = this.options;
    makeAttempt(place, attempt);
    const options = await this.#jobOptions(place, attempt, signal);
    const job = await openPart(place, attempt, options);
    const { own, others } = await markPaths(place, attempt);
    let underWay: RowsUnderWay | undefined;
    try {
      await this.#agree(job);
      progress.begin(job);
      underWay = RowsUnderWay.begin(own, others);
      const summary = await job.run(engine, underWay);
      await job.close();
      underWay.clear();
      return summary;
    } catch (error) {
      // The run's error is the cause; one of closing after it would only hide it.
      await job.close().catch(() => undefined);
      if (!isOfShard(error)) underWay?.clear();
      throw error;
    } finally {
      underWay?.[Symbol.dispose]();
    }
  }

  async #jobOptions(place: ShardPlace, attempt: string, signal: AbortSignal): Promise<JobOptions> {
    const { engine, input = this.manifest.input } = this.options;
    const { options, shards } = this.manifest;
    const { inputFormat, ...rest } = options;
    return {
      ...rest,
      ...(inputFormat !== undefined && { inputFormat }),
      ...stoppable(options, signal),
      input: await inputFiles(input),
      output: partPath(place, attempt),
      outputFormat: 'jsonl',
      shard: { index: place.shard, ...shards },
      ...(engine.source && { modelFiles: engine.source.files }),
      ...(engine.resultIdentity && { resultIdentity: engine.resultIdentity }),
    };
  }

  /**
   * Looks whether this machine does what the others do.
   * @throws JobFileError for another input; UsageError for anything else that decides results
   */
  async #agree(job: Job): Promise<void> {
    const { source, engine } = this.options;
    const own = job.identity(engine.resultIdentity);
    if (own === undefined) throw new TypeError('a part is a file');
    const [changed] = differencesOf(
      { engine: {}, options: {}, input: this.manifest.fingerprint },
      { engine: {}, options: {}, input: own.input },
    );
    if (changed !== undefined)
      throw new JobFileError(
        this.manifest.input[0] ?? 'input',
        `is not what the job was submitted with: it differs in ${changed}; give what was submitted, or submit the job again`,
      );
    const agreed = checkIdentity(source.name, await source.agree(queuedJson('what decides the results', own)));
    const differences = differencesOf(agreed, own);
    if (differences.length > 0)
      throw new UsageError(
        `this worker's results would not go with those of the job: it differs from the first worker in ${differences.join(', ')}; give it the same, or submit the job again`,
      );
  }

  /** Renews the lease while its shard is worked on. A queue that is away says nothing: then the work goes on. */
  #keepRenewing(lease: Lease, lost: AbortController, progress: PartProgress): { stop(): void } {
    let asking = false;
    const timer = setInterval(
      () => {
        if (asking) return;
        asking = true;
        lease
          .renew(progress.now)
          .then(
            (ours) => {
              if (!ours) lost.abort();
            },
            () => undefined,
          )
          .finally(() => {
            asking = false;
          });
      },
      (this.manifest.leaseSeconds * 1000) / RENEWALS,
    );
    return { stop: () => clearInterval(timer) };
  }
}

/** Tells whether a failure may be that of a shard's rows. */
function isOfShard(error: unknown): boolean {
  return !(error instanceof SpillwayError) || OF_A_SHARD.has(error.code);
}

/** How far a part is. */
class PartProgress {
  #job: Pick<Job, 'finishedRows' | 'keptRows'> | undefined;
  #begun = 0;

  begin(job: Pick<Job, 'finishedRows' | 'keptRows'>): void {
    this.#job = job;
    this.#begun = performance.now();
  }

  get now(): ShardProgress | undefined {
    if (!this.#job) return undefined;
    const { finishedRows: rows, keptRows } = this.#job;
    const seconds = (performance.now() - this.#begun) / 1000;
    return { rows, rowsPerSecond: seconds > 0 ? (rows - keptRows) / seconds : 0 };
  }
}

/** Gives a shard back soon after the signal fires, however long the run takes to end. */
function givingBack(lease: Lease, signal: AbortSignal): { settled(): Promise<void> } {
  let given: Promise<void> | undefined;
  const ended = new AbortController();
  const onAbort = (): void => {
    given = sleep(PARTING_SECONDS * 1000, undefined, { signal: ended.signal })
      .then(() => lease.giveBack())
      .catch(() => undefined);
  };
  signal.addEventListener('abort', onAbort);
  return {
    settled: async () => {
      signal.removeEventListener('abort', onAbort);
      ended.abort();
      await given;
    },
  };
}

/**
 * A job over a shard: one that goes on with what an earlier attempt has left, where that is this job's and is sound.
 */
async function openPart(place: ShardPlace, attempt: string, options: JobOptions): Promise<Job> {
  if (await takeOver(place, attempt)) {
    try {
      return await Job.open({ ...options, resume: true });
    } catch (error) {
      if (!(error instanceof UsageError || error instanceof JobFileError)) throw error;
      await startAnew(place, attempt);
    }
  }
  return Job.open(options);
}

/** @throws QueueError for what no worker has said */
function checkIdentity(queue: string, json: string): JobIdentity {
  const value = parseQueued(queue, 'what workers agree on', json);
  try {
    checkMembers('what workers agree on', value, { engine: object, options: object, input: checkFingerprint });
    const { engine, options, input } = value as Partial<JobIdentity>;
    if (engine !== undefined && options !== undefined && input !== undefined) return { engine, options, input };
  } catch (error) {
    if (error instanceof UsageError) throw new QueueError(queue, error.message, { cause: error });
    throw error;
  }
  throw new QueueError(queue, `what workers agree on: found ${found(value)}, expected engine, options and input`);
}
