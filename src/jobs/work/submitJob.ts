import { randomBytes } from 'node:crypto';
import { resolve } from 'node:path';
import { checkMembers, type Check } from '../../arguments/checkMembers.js';
import { checkBoolean, checkSignal, checkText } from '../../arguments/checks.js';
import { found } from '../../arguments/found.js';
import { isObject } from '../../arguments/isObject.js';
import { number, object, text, whole } from '../../arguments/memberChecks.js';
import { InterruptedError } from '../../errors/InterruptedError.js';
import { UsageError } from '../../errors/UsageError.js';
import type { FormatName } from '../formats/rowFormats.js';
import { type InputPaths, inputFiles, isInputPaths } from '../input/inputFiles.js';
import { Job } from '../Job.js';
import { runFormat } from '../output/writeOptions.js';
import { SHARD_ROWS, SHARDS } from '../shards/Shard.js';
import { filesOf } from '../record/fingerprint.js';
import {
  type JobManifest,
  LEASE_SECONDS,
  MANIFEST_VERSION,
  MAX_DELIVER,
  queuedJson,
  type QueuedOptions,
  stoppable,
} from './JobManifest.js';
import type { WorkSource } from './WorkSource.js';

export interface SubmitJobOptions extends Omit<QueuedOptions, 'inputFormat'> {
  readonly source: WorkSource;
  /** Files of rows that all workers see. */
  readonly input: InputPaths;
  /** Default `auto`: what its name says, then what it begins with. */
  readonly inputFormat?: 'auto' | FormatName;
  /** The output to be collected: `collectJob` writes it. */
  readonly output: string;
  /** A folder that all workers see, for the parts. Default: `OUTPUT.parts`. */
  readonly parts?: string;
  /** How many shards there are. Default: as many as the rows make, `shardRows` in each. */
  readonly shards?: number;
  /** Rows that are dealt to a shard at a time. Default 1. */
  readonly shardRows?: number;
  /**
   * A shard is given up after so many workers went away with it, or failed at it; those that gave it back do not count.
   * Default 3.
   */
  readonly maxDeliver?: number;
  /** A worker that has not been heard of for so long loses its shard. Default 60. */
  readonly leaseSeconds?: number;
  /** Settings told to whoever opens an engine for the job; plain JSON data. Default: nothing. */
  readonly engine?: Readonly<Record<string, unknown>>;
  /** Replace a job of that name, whatever its state. Default false: it is refused. */
  readonly overwrite?: boolean;
  readonly signal?: AbortSignal;
}

const CHECKS: Readonly<Record<keyof SubmitJobOptions, Check>> = {
  source: object,
  input: checkPaths,
  inputFormat: text('the name of a format'),
  output: text("a file's path"),
  parts: text("a folder's path"),
  shards: whole(SHARDS.least, SHARDS.most),
  shardRows: whole(SHARD_ROWS.least),
  maxDeliver: whole(MAX_DELIVER.least, MAX_DELIVER.most),
  leaseSeconds: number(LEASE_SECONDS),
  engine: object,
  overwrite: checkBoolean,
  signal: checkSignal,
  // The job's own are checked as it is opened.
  columns: object,
  delimiter: text(),
  carryFields: checkBoolean,
  resultColumns: object,
  resultPrefix: text(),
  identity: object,
  generate: object,
  classify: object,
  score: object,
  rerank: object,
  embed: object,
};

const TASKS: ReadonlySet<string> = new Set(['generate', 'classify', 'score', 'rerank', 'embed']);
/** The options told to a task that are a process's own. */
const NOT_QUEUED: ReadonlySet<string> = new Set(['signal', 'onProgress', 'onStats', 'onTrace', 'schema']);

/**
 * Puts a job into a queue: how its input is cut into shards, and all that decides its results, so that every worker
 * does the same (`runWork`). Looks at the options and reads the input once, as a job does that begins; its contents are
 * what workers have to find.
 * @throws UsageError for a wrong option, or where there is a job of that name; JobFileError; QueueError;
 * InterruptedError when the signal fires
 * @example
 * await submitJob({ source, input: '/data/tickets.csv', output: '/data/answers.csv', shards: 100, generate: {
 * maxNewTokens: 32 } });
 */
export async function submitJob(options: SubmitJobOptions): Promise<JobManifest> {
  checkMembers('options', options, CHECKS);
  const { source, input, output, parts, shardRows = 1, engine = {}, overwrite = false, signal, ...rest } = options;
  const { maxDeliver = MAX_DELIVER.fallback, leaseSeconds = LEASE_SECONDS.fallback, shards, ...jobOptions } = rest;
  checkPaths('input', input);
  checkText('output', output, "a file's path");
  if (shards === undefined && options.shardRows === undefined)
    throw new UsageError('found neither `shards` nor `shardRows`, expected how many there are, or how large they are');
  const files = (await inputFiles(input)).map((path) => resolve(path));
  const { rows, fingerprint, inputFormat } = await inspect({ ...jobOptions, input: files, output }, signal);
  const manifest: JobManifest = {
    format: 'spillway-queue',
    version: MANIFEST_VERSION,
    id: randomBytes(8).toString('hex'),
    input: files,
    fingerprint,
    rows,
    parts: resolve(parts ?? `${output}.parts`),
    output: resolve(output),
    shards: { count: shards ?? shardsOf(rows, shardRows), rows: shardRows },
    maxDeliver,
    leaseSeconds,
    options: queuedOptions({ ...jobOptions, inputFormat }),
    engine,
  };
  queuedJson('the job', manifest);
  if (overwrite) await source.remove();
  await source.submit(manifest);
  return manifest;
}

/** Looks up what a job finds as it begins. */
async function inspect(
  options: Omit<QueuedOptions, 'inputFormat'> & {
    readonly inputFormat?: 'auto' | FormatName;
    readonly input: readonly string[];
    readonly output: string;
  },
  signal: AbortSignal | undefined,
): Promise<Pick<JobManifest, 'rows' | 'fingerprint'> & { readonly inputFormat: FormatName }> {
  // What is there is replaced by whoever collects, if at all.
  const job = await Job.open({ ...options, ...stoppable(options, signal), overwrite: true });
  try {
    const [rows, identity] = [job.totalRows, job.identity()];
    if (rows === undefined || identity === undefined || filesOf(identity.input) === undefined)
      throw new UsageError(
        `input: found ${found(options.input[0])}, which is no regular file, expected files that every worker can read`,
      );
    if (signal?.aborted === true) throw new InterruptedError(signal.reason);
    return { rows, fingerprint: identity.input, inputFormat: identity.options['inputFormat'] as FormatName };
  } finally {
    await job.close();
  }
}

function shardsOf(rows: number, each: number): number {
  const count = Math.max(1, Math.ceil(rows / each));
  if (count > (SHARDS.most ?? Infinity))
    throw new UsageError(
      `shardRows: found ${each} of ${rows} rows, which makes ${count} shards, expected at most ${SHARDS.most ?? 0}`,
    );
  return count;
}

/** As plain JSON data: without what is this process's own. */
function queuedOptions({ generate, ...options }: QueuedOptions): QueuedOptions {
  const responseFormat = generate && runFormat(generate);
  // All workers tell chat templates the same time.
  const now = new Date().toISOString();
  const { classify, score, rerank, embed } = options;
  const all = {
    ...options,
    ...(classify && { classify: { ...classify, now: classify.now ?? now } }),
    ...(score && { score: { ...score, now: score.now ?? now } }),
    ...(embed && { embed: { ...embed, now: embed.now ?? now } }),
    ...(!(classify ?? score ?? rerank ?? embed) && {
      generate: { ...generate, ...(responseFormat && { responseFormat }), now: generate?.now ?? now },
    }),
  };
  return Object.fromEntries(
    Object.entries(all).map(([name, value]) => [name, TASKS.has(name) && isObject(value) ? queuedTask(value) : value]),
  );
}

function queuedTask(task: object): object {
  return Object.fromEntries(Object.entries(task).filter(([name]) => !NOT_QUEUED.has(name)));
}

function checkPaths(name: string, value: unknown): void {
  if (!isInputPaths(value)) throw new UsageError(`${name}: found ${found(value)}, expected a file's path, or several`);
}
