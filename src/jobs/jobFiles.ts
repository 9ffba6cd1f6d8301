import { access, constants, stat } from 'node:fs/promises';
import type { Stats } from 'node:fs';
import { dirname } from 'node:path';
import { checkObject } from '../arguments/checkObject.js';
import { JobFileError } from '../errors/JobFileError.js';
import { UsageError } from '../errors/UsageError.js';
import { checkDistinctFiles } from './distinctFiles.js';
import { fileErrorCode, fileFailure } from './fileErrors.js';
import { checkSidecars, outputFiles } from './outputFiles.js';

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
  const { input, output, modelFiles = [], resume = false, retryErrors = false, overwrite = false } = options;
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
      ...outputFiles('output', output),
    ]);
  }
  return {
    input: inputStats === undefined ? 'none' : inputStats.isFile() ? 'regular' : 'special',
    output: output === undefined ? checkNoOutput(resume) : await checkOutput(output, resume, overwrite),
  };
}

function checkNoOutput(resume: boolean): 'none' {
  if (resume) throw new UsageError('--resume needs --output FILE: a stream cannot be read again');
  return 'none';
}

async function checkOutput(path: string, resume: boolean, overwrite: boolean): Promise<JobFileState['output']> {
  const stats = await statOf(path);
  if (stats === undefined) {
    const folder = await statOf(dirname(path));
    if (folder?.isDirectory() !== true) throw new JobFileError(path, `cannot be written: there is no folder ${dirname(path)}`);
    checkSidecars(path);
    return 'absent';
  }
  if (stats.isDirectory()) throw new JobFileError(path, 'cannot be written: it is a folder, expected a file');
  if (!stats.isFile()) {
    if (resume) throw new UsageError(`--resume needs a regular file as output: ${path} cannot be read again`);
    return 'special';
  }
  if (!resume && !overwrite) {
    throw new UsageError(`${path} exists; --resume goes on with it, --overwrite begins anew`);
  }
  checkSidecars(path);
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
