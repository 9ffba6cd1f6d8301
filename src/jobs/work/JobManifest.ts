import { checkMembers, checkObject, type Check } from '../../arguments/checkMembers.js';
import { checkBoolean, checkText } from '../../arguments/checks.js';
import { found } from '../../arguments/found.js';
import { isObject } from '../../arguments/isObject.js';
import { number, object, oneOf, text, whole } from '../../arguments/memberChecks.js';
import { isWithin, wholeRange } from '../../arguments/NumberRange.js';
import { QueueError } from '../../errors/QueueError.js';
import { UsageError } from '../../errors/UsageError.js';
import { checkColumns, checkDelimiter, checkNamesOfColumns } from '../formats/checkColumns.js';
import { FORMAT_NAMES } from '../formats/rowFormats.js';
import { isInputPaths } from '../input/inputFiles.js';
import type { JobOptions } from '../JobOptions.js';
import { filesOf, type InputFingerprint } from '../record/fingerprint.js';
import { SHARD_ROWS, SHARDS } from '../shards/Shard.js';

/** 2: what becomes of shards is kept under the id of the job. */
export const MANIFEST_VERSION = 2;
/** Most bytes of a manifest, and of what workers agree on: a message of NATS may have 2^20 by default. */
export const MOST_QUEUED_BYTES = 1_000_000;
export const MAX_DELIVER = { least: 1, most: 1000, fallback: 3 };
/** A minute: workers renew three times in it. */
export const LEASE_SECONDS = { least: 1, most: 86_400, fallback: 60 };

/** The options of a job that are in a queue: those that decide results, as plain JSON data. */
export type QueuedOptions = Pick<
  JobOptions,
  | 'columns'
  | 'delimiter'
  | 'carryFields'
  | 'resultColumns'
  | 'resultPrefix'
  | 'identity'
  | 'generate'
  | 'classify'
  | 'score'
  | 'rerank'
  | 'embed'
> & {
  /** By its name. */
  readonly inputFormat?: (typeof FORMAT_NAMES)[number];
};

/** A job as a queue has shown it: what is said of it later is said of no other of its name. */
export interface MetJob {
  readonly manifest: JobManifest;
  /** As it stands there. */
  readonly json: string;
}

/** The task of a job, which ends when the signal fires. */
export function stoppable(
  { classify, score, rerank, embed, generate }: QueuedOptions,
  signal: AbortSignal | undefined,
): Pick<JobOptions, 'classify' | 'score' | 'rerank' | 'embed' | 'generate'> {
  const stops = signal && { signal };
  if (classify) return { classify: { ...classify, ...stops } };
  if (score) return { score: { ...score, ...stops } };
  if (rerank) return { rerank: { ...rerank, ...stops } };
  if (embed) return { embed: { ...embed, ...stops } };
  return { generate: { ...generate, ...stops } };
}

/** A queue's description of a job, so that every worker does the same. */
export interface JobManifest {
  readonly format: 'spillway-queue';
  readonly version: typeof MANIFEST_VERSION;
  /** 16 hexadecimal digits, by which its parts are told from another job's of the same name. */
  readonly id: string;
  /** Absolute paths of the files of rows. */
  readonly input: readonly string[];
  /** The fingerprint of the files' contents. */
  readonly fingerprint: InputFingerprint;
  /** Rows of the input. */
  readonly rows: number;
  /** Where parts go: the absolute path of a folder that all workers see. */
  readonly parts: string;
  /** The absolute path of what is to be collected. */
  readonly output: string;
  readonly shards: {
    readonly count: number;
    /** Rows that are dealt at a time. */
    readonly rows: number;
  };
  readonly maxDeliver: number;
  readonly leaseSeconds: number;
  readonly options: QueuedOptions;
  /**
   * Options told to whoever opens an engine for the job: its model and options. Empty where workers know by themselves.
   */
  readonly engine: Readonly<Record<string, unknown>>;
}

const OPTION_CHECKS: Readonly<Record<keyof QueuedOptions, Check>> = {
  inputFormat: oneOf(...FORMAT_NAMES),
  columns: checkColumns,
  delimiter: checkDelimiter,
  carryFields: checkBoolean,
  resultColumns: checkNamesOfColumns,
  resultPrefix: text(),
  identity: object,
  generate: object,
  classify: object,
  score: object,
  rerank: object,
  embed: object,
};

const CHECKS: Readonly<Record<keyof JobManifest, Check>> = {
  format: oneOf('spillway-queue'),
  version: checkVersion,
  id: checkId,
  input: checkPaths,
  fingerprint: checkFingerprint,
  rows: whole(0),
  parts: checkPath,
  output: checkPath,
  shards: (name, value) => {
    checkMembers(name, value, { count: whole(SHARDS.least, SHARDS.most), rows: whole(SHARD_ROWS.least) }, `${name}.`);
    const { count, rows } = value as Partial<JobManifest['shards']>;
    if (count === undefined || rows === undefined)
      throw new UsageError(`${name}: found ${found(value)}, expected count and rows`);
  },
  maxDeliver: whole(MAX_DELIVER.least, MAX_DELIVER.most),
  leaseSeconds: number(LEASE_SECONDS),
  options: (name, value) => {
    checkMembers(name, value, OPTION_CHECKS, `${name}.`);
  },
  engine: object,
};

/** @throws UsageError naming the member, what was found and what was expected */
export function checkManifest(value: unknown): asserts value is JobManifest {
  checkMembers('manifest', value, CHECKS, 'manifest.');
  const members: Readonly<Record<string, unknown>> = { ...value };
  const missing = Object.keys(CHECKS).find((name) => members[name] === undefined);
  if (missing !== undefined) throw new UsageError(`manifest.${missing}: found nothing, expected one`);
}

/**
 * A manifest as a queue holds it.
 * @param queue for messages
 * @throws QueueError naming what was found and what was expected
 */
export function parseManifest(queue: string, json: unknown): JobManifest {
  const value = parseQueued(queue, 'the manifest', json);
  if (isObject(value) && value['format'] === 'spillway-queue' && value['version'] !== MANIFEST_VERSION)
    throw new QueueError(
      queue,
      `found a job of version ${found(value['version'])}, expected ${MANIFEST_VERSION}: another version of Spillway submitted it; give all workers that one`,
    );
  try {
    checkManifest(value);
    return value;
  } catch (error) {
    if (error instanceof UsageError) throw new QueueError(queue, error.message, { cause: error });
    throw error;
  }
}

/** JSON that a queue holds. @throws QueueError for what is too long, or none */
export function parseQueued(queue: string, what: string, json: unknown): unknown {
  if (typeof json !== 'string') throw new QueueError(queue, `${what}: found ${found(json)}, expected text`);
  if (json.length > MOST_QUEUED_BYTES)
    throw new QueueError(queue, `${what}: found ${json.length} characters, expected at most ${MOST_QUEUED_BYTES}`);
  try {
    return JSON.parse(json) as unknown;
  } catch {
    throw new QueueError(queue, `${what}: found ${found(json)}, expected JSON`);
  }
}

/** JSON for a queue. @throws UsageError for what is too long */
export function queuedJson(what: string, value: unknown): string {
  const json = JSON.stringify(value);
  const bytes = Buffer.byteLength(json);
  if (bytes > MOST_QUEUED_BYTES)
    throw new UsageError(
      `${what}: found ${bytes} bytes, expected at most ${MOST_QUEUED_BYTES}, as queues take them; shorten prompt template, tools or schema, or name fewer files`,
    );
  return json;
}

function checkVersion(name: string, value: unknown): void {
  if (value !== MANIFEST_VERSION) throw new UsageError(`${name}: found ${found(value)}, expected ${MANIFEST_VERSION}`);
}

function checkId(name: string, value: unknown): void {
  checkText(name, value);
  if (!/^[0-9a-f]{16}$/.test(value))
    throw new UsageError(`${name}: found ${found(value)}, expected 16 hexadecimal digits`);
}

function checkPath(name: string, value: unknown): void {
  text('an absolute path')(name, value);
  if (!(value as string).startsWith('/') || (value as string).includes('\0'))
    throw new UsageError(`${name}: found ${found(value)}, expected an absolute path`);
}

function checkPaths(name: string, value: unknown): void {
  if (!isInputPaths(value) || typeof value === 'string')
    throw new UsageError(`${name}: found ${found(value)}, expected an array of paths`);
  for (const path of value) checkPath(name, path);
}

/** @throws UsageError unless it is that of files */
export function checkFingerprint(name: string, value: unknown): void {
  checkObject(name, value);
  const files: readonly unknown[] | undefined = filesOf(value as InputFingerprint);
  const fits = files?.every(
    (file) => isObject(file) && isWithin(file['bytes'], wholeRange(0)) && /^[0-9a-f]{64}$/.test(String(file['sha256'])),
  );
  if (fits !== true) throw new UsageError(`${name}: found ${found(value)}, expected length and SHA-256 of each file`);
}
