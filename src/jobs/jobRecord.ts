import { readFile } from 'node:fs/promises';
import { JobFileError } from '../errors/JobFileError.js';
import { UsageError } from '../errors/UsageError.js';
import type { GenerateOptions } from '../Row.js';
import { writeFileAtomic } from './atomicFile.js';
import { describeFileError, fileErrorCode } from './fileErrors.js';
import type { FileFingerprint, InputFingerprint } from './fingerprint.js';
import { isJsonObject } from './parseRow.js';

/** The sidecar file of an output: what the run that began it was. A resumed run must be the same. */
export interface JobRecord {
  readonly format: 'spillway-job';
  readonly version: 1;
  readonly model: readonly FileFingerprint[];
  /** Everything that decides what is written for a row; defaults filled in. */
  readonly options: Readonly<Record<string, unknown>>;
  readonly input: InputFingerprint;
}

export function recordPath(output: string): string {
  return `${output}.job.json`;
}

/** The options that decide a row's result, with their defaults, so that a default given explicitly makes no difference. */
export function resultOptions(options: GenerateOptions, more: Readonly<Record<string, unknown>>): Readonly<Record<string, unknown>> {
  return {
    maxNewTokens: options.maxNewTokens ?? 128,
    temperature: options.temperature ?? 0,
    topP: options.topP ?? 1,
    topK: options.topK ?? 0,
    minP: options.minP ?? 0,
    repetitionPenalty: options.repetitionPenalty ?? 1,
    seed: options.seed ?? 0,
    stop: options.stop ?? [],
    ignoreEos: options.ignoreEos ?? false,
    logprobs: options.logprobs ?? null,
    escapeSpecialTokens: options.escapeSpecialTokens ?? false,
    ...more,
  };
}

export async function writeRecord(output: string, record: JobRecord): Promise<void> {
  await writeFileAtomic(recordPath(output), `${JSON.stringify(record, undefined, 2)}\n`);
}

/** @returns undefined if there is none. @throws JobFileError if it cannot be read or is none of ours */
export async function readRecord(output: string): Promise<JobRecord | undefined> {
  const path = recordPath(output);
  let value: unknown;
  try {
    value = JSON.parse(await readFile(path, 'utf8'));
  } catch (error) {
    if (fileErrorCode(error) === 'ENOENT') return undefined;
    throw new JobFileError(path, `cannot be read: ${describeFileError(error)}`, { cause: error });
  }
  if (
    !isJsonObject(value) || value['format'] !== 'spillway-job' || value['version'] !== 1 ||
    !Array.isArray(value['model']) || !isJsonObject(value['options']) || !isJsonObject(value['input'])
  ) {
    throw new JobFileError(path, 'found something else than the record of a job, expected {"format":"spillway-job","version":1,…}');
  }
  return value as unknown as JobRecord;
}

/**
 * Refuses a run that differs from the one that began the output, naming each difference.
 * @param input false while the first row of a stream is not known yet
 * @throws UsageError
 */
export function checkSameJob(output: string, before: JobRecord, now: JobRecord, input = true): void {
  const differences: string[] = [];
  const modelNow = new Map(now.model.map((file) => [file.name, file]));
  const modelBefore = new Map(before.model.map((file) => [file.name, file]));
  for (const name of new Set([...modelBefore.keys(), ...modelNow.keys()])) {
    if (!same(modelBefore.get(name), modelNow.get(name))) differences.push(`the model (${name})`);
  }
  for (const name of new Set([...Object.keys(before.options), ...Object.keys(now.options)])) {
    const [was, is] = [before.options[name], now.options[name]];
    if (!same(was, is)) differences.push(`${name} (was ${JSON.stringify(was) ?? 'not set'}, is ${JSON.stringify(is) ?? 'not set'})`);
  }
  if (input && !same(before.input, now.input)) differences.push(`the input${describeInputs(before.input, now.input)}`);
  if (differences.length > 0) {
    throw new UsageError(
      `${output}: cannot be resumed, as this run differs from the one that began it in ${differences.join(', ')}; ` +
        'give what was given then, or another output, or --overwrite to begin anew',
    );
  }
}

function describeInputs(was: InputFingerprint, is: InputFingerprint): string {
  if (was.kind !== is.kind) return ` (was a ${was.kind}, is a ${is.kind})`;
  return was.kind === 'file' && is.kind === 'file' && was.bytes !== is.bytes ? ` (had ${was.bytes} bytes, has ${is.bytes})` : '';
}

/** Equality of plain data whose keys stand in the same order, as ours do. */
function same(a: unknown, b: unknown): boolean {
  return JSON.stringify(a) === JSON.stringify(b);
}
