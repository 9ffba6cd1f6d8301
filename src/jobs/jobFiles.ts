import { access, constants, stat } from 'node:fs/promises';
import type { Stats } from 'node:fs';
import { dirname } from 'node:path';
import { checkObject } from '../arguments/checkObject.js';
import { JobFileError } from '../errors/JobFileError.js';
import { UsageError } from '../errors/UsageError.js';
import { checkDistinctFiles } from './distinctFiles.js';
import { fileErrorCode, fileFailure } from './fileErrors.js';
import { specialKind } from './specialFiles.js';
import { checkSidecars, journalPath, outputFiles } from './outputFiles.js';

export interface JobFileOptions {
  /** The input's path, where it has one. */
  readonly input?: string;
  /** The output's path, where it has one. */
  readonly output?: string;
  /** Files of the model, none of which may be overwritten. */
  readonly modelFiles?: readonly string[];
  readonly resume?: boolean;
  readonly retryErrors?: boolean;
  readonly overwrite?: boolean;
  /** Whether the output is written as a whole at the end, from a journal of results beside it: any but plain `jsonl`. Default false. */
  readonly published?: boolean;
  /** Where rows that failed go. */
  readonly errors?: string;
}

/** What stands where the job's files are to be. */
export interface JobFileState {
  /** `special`: a pipe or device; it can be read or written once, and not resumed. `none`: no path was given. */
  readonly input: 'regular' | 'special' | 'none';
  readonly output: 'regular' | 'absent' | 'special' | 'none';
}

/**
 * Checks, without writing anything, that a job could begin with these files. `Job.open` does it too; a caller that has slow work to do
 * before (loading a model) may ask earlier.
 * @throws UsageError for options that do not go together and for a file that would be lost; JobFileError for a file that is missing
 */
export async function checkJobFiles(options: JobFileOptions): Promise<JobFileState> {
  checkObject('options', options);
  const { input, output, modelFiles = [], resume = false, retryErrors = false, overwrite = false, published = false, errors } = options;
  if (retryErrors && !resume) throw new UsageError('--retry-errors goes with --resume: it redoes the error rows of an output that exists');
  if (resume && overwrite) throw new UsageError('--resume and --overwrite contradict each other: go on with the output, or begin anew?');

  const inputStats = input === undefined ? undefined : await statOf(input);
  if (input !== undefined) {
    if (inputStats === undefined) throw new JobFileError(input, 'cannot be read: no such file or folder (ENOENT)');
    if (inputStats.isDirectory()) throw new JobFileError(input, 'cannot be read: it is a folder, expected a file of rows');
    await access(input, constants.R_OK).catch((error: unknown) => {
      throw fileFailure(input, 'read', error);
    });
  }
  if (output !== undefined) {
    await checkDistinctFiles([
      ...(input === undefined ? [] : [{ name: 'input', path: input, written: false }]),
      ...modelFiles.map((path) => ({ name: 'the model', path, written: false })),
      ...outputFiles('output', output, published),
      ...(errors === undefined ? [] : [{ name: 'errors', path: errors, written: true }]),
    ]);
  }
  if (errors !== undefined) await checkReplaceable(errors, resume || overwrite);
  return {
    input: inputStats === undefined ? 'none' : inputStats.isFile() ? 'regular' : 'special',
    output: output === undefined ? checkNoOutput(resume) : await checkOutput(output, resume, overwrite, published),
  };
}

function checkNoOutput(resume: boolean): 'none' {
  if (resume) throw new UsageError('--resume needs --output FILE: a stream cannot be read again');
  return 'none';
}

/** @throws UsageError, JobFileError unless a file can be put there */
async function checkReplaceable(path: string, replace: boolean): Promise<void> {
  const stats = await statOf(path);
  if (stats === undefined) return checkFolder(path);
  if (!stats.isFile()) throw new JobFileError(path, `cannot be written: it is ${specialKind(stats) ?? 'no file'}, expected a file, or nothing`);
  if (!replace) throw new UsageError(`${path} exists; --resume goes on with its job, --overwrite begins anew`);
}

async function checkFolder(path: string): Promise<void> {
  const folder = await statOf(dirname(path));
  if (folder?.isDirectory() !== true) throw new JobFileError(path, `cannot be written: there is no folder ${dirname(path)}`);
}

async function checkOutput(path: string, resume: boolean, overwrite: boolean, published: boolean): Promise<JobFileState['output']> {
  const own = await statOf(path);
  // Until the first run has ended there is the journal alone.
  const kept = published && (own === undefined || own.isFile()) ? journalPath(path) : path;
  const stats = own ?? (await statOf(kept));
  if (stats === undefined) {
    await checkFolder(path);
    checkSidecars(path, published);
    return 'absent';
  }
  if (stats.isDirectory()) throw new JobFileError(path, 'cannot be written: it is a folder, expected a file');
  if (!stats.isFile()) {
    if (resume) throw new UsageError(`--resume needs a regular file as output: ${path} cannot be read again`);
    return 'special';
  }
  if (!resume && !overwrite) {
    throw new UsageError(`${own === undefined ? kept : path} exists; --resume goes on with it, --overwrite begins anew`);
  }
  checkSidecars(path, published);
  return 'regular';
}

async function statOf(path: string): Promise<Stats | undefined> {
  try {
    return await stat(path);
  } catch (error) {
    if (fileErrorCode(error) === 'ENOENT') return undefined;
    throw fileFailure(path, 'used', error);
  }
}
