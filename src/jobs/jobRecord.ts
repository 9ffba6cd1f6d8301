import { readFile } from 'node:fs/promises';
import { isObject } from '../arguments/isObject.js';
import { JobFileError } from '../errors/JobFileError.js';
import { UsageError } from '../errors/UsageError.js';
import { listMissing } from '../model/files/listMissing.js';
import type { GenerateOptions } from '../Row.js';
import { writeFileAtomic } from './atomicFile.js';
import { BEGIN_ANEW, fileErrorCode, fileFailure } from './fileErrors.js';
import type { FileFingerprint, InputFingerprint } from './fingerprint.js';
import { recordPath } from './outputFiles.js';

/** The sidecar file of an output: what the run that began it was. A resumed run must be the same. */
export interface JobRecord {
  readonly format: 'spillway-job';
  readonly version: 1;
  readonly model: readonly FileFingerprint[];
  /** Everything that decides what is written for a row; defaults filled in. */
  readonly options: Readonly<Record<string, unknown>>;
  readonly input: InputFingerprint;
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

/** @returns undefined if there is none. @throws JobFileError if it cannot be read or is damaged */
export async function readRecord(output: string): Promise<JobRecord | undefined> {
  const path = recordPath(output);
  let text: string;
  try {
    text = await readFile(path, 'utf8');
  } catch (error) {
    if (fileErrorCode(error) === 'ENOENT') return undefined;
    throw fileFailure(path, 'read', error);
  }
  const value = parseJson(text);
  if (
    !isObject(value) || value['format'] !== 'spillway-job' || value['version'] !== 1 ||
    !isList(value['model']) || !value['model'].every((file) => isObject(file) && typeof file['name'] === 'string') ||
    !isObject(value['options']) || !isObject(value['input'])
  ) {
    throw new JobFileError(path, `found something else than the record of a job, expected {"format":"spillway-job","version":1,…}; ${BEGIN_ANEW}`);
  }
  return value as unknown as JobRecord;
}

function isList(value: unknown): value is readonly unknown[] {
  return Array.isArray(value);
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/**
 * Refuses a run that differs from the one that began the output, naming each difference.
 * @param input false while the first row of a stream is not known yet
 * @throws UsageError
 */
export function checkSameJob(output: string, before: JobRecord, now: JobRecord, input = true): void {
  const differences: string[] = [];
  if (!same(before.model, now.model)) differences.push(`the model ${describeModels(before.model, now.model)}`);
  for (const name of new Set([...Object.keys(before.options), ...Object.keys(now.options)])) {
    const [was, is] = [before.options[name], now.options[name]];
    if (!same(was, is)) differences.push(`${name} (was ${JSON.stringify(was) ?? 'not set'}, is ${JSON.stringify(is) ?? 'not set'})`);
  }
  if (input && !same(before.input, now.input)) differences.push(`the input${describeInputs(before.input, now.input)}`);
  if (differences.length > 0) {
    throw new UsageError(
      `${output}: cannot be resumed, as this run differs from the one that began it in ${differences.join(', ')}; ` +
        `give what was given then, or another output; ${BEGIN_ANEW}`,
    );
  }
}

/** `(was a.gguf, is b.gguf)`; of the same names, those whose contents differ. */
function describeModels(was: readonly FileFingerprint[], is: readonly FileFingerprint[]): string {
  const names = (files: readonly FileFingerprint[]): string => (files.length === 0 ? 'not given' : listMissing(files.map(({ name }) => name)));
  if (names(was) !== names(is)) return `(was ${names(was)}, is ${names(is)})`;
  return `(${names(is.filter((file, at) => !same(file, was[at])))}) by its contents`;
}

function describeInputs(was: InputFingerprint, is: InputFingerprint): string {
  if (was.kind !== is.kind) return ` (was a ${was.kind}, is a ${is.kind})`;
  return was.kind === 'file' && is.kind === 'file' && was.bytes !== is.bytes ? ` (had ${was.bytes} bytes, has ${is.bytes})` : '';
}

/** Equality of plain data whose keys stand in the same order, as ours do. */
function same(a: unknown, b: unknown): boolean {
  return JSON.stringify(a) === JSON.stringify(b);
}
