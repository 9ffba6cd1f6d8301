import { access, constants, stat } from 'node:fs/promises';
import type { Stats } from 'node:fs';
import { dirname } from 'node:path';
import { checkObject } from '../arguments/checkMembers.js';
import { JobFileError } from '../errors/JobFileError.js';
import { UsageError } from '../errors/UsageError.js';
import { fileFailure } from '../files/fileErrors.js';
import { ifThere } from '../files/ifThere.js';
import { specialKind } from '../files/specialFiles.js';
import { isErrorsOf } from './output/JobOutput.js';
import { checkSidecars, hasJournal, jobOutputFiles, journalPath } from './output/sidecarFiles.js';
import { checkDistinctFiles, descriptorOf, realPathOf } from '../files/realPath.js';

export interface JobFileOptions {
  /** The paths of the input, where it has any. */
  readonly input?: string | readonly string[];
  /** The output's path, where it has one. */
  readonly output?: string;
  /** Files of the model, none of which may be overwritten. */
  readonly modelFiles?: readonly string[];
  readonly resume?: boolean;
  readonly retryErrors?: boolean;
  readonly overwrite?: boolean;
  /**
   * True where the output is written as a whole at the end, from a journal of results beside it: any but plain `jsonl`.
   * Default false.
   */
  readonly published?: boolean;
  /** Where rows that failed go. */
  readonly errors?: string;
}

/** The kinds of files that stand where the job's are to be. */
export interface JobFileState {
  /** `special`: a pipe or device; it can be read or written once, and not resumed. `none`: no path was given. */
  readonly input: 'regular' | 'special' | 'none';
  readonly output: 'regular' | 'absent' | 'special' | 'none';
}

/**
 * Checks, without writing anything, that a job could begin with these files. `Job.open` does it too; a caller that has
 * slow work to do before (loading a model) may ask earlier.
 * @throws UsageError for options that do not go together and for a file that would be lost; JobFileError for a file
 * that is missing
 */
export async function checkJobFiles(options: JobFileOptions): Promise<JobFileState> {
  checkObject('options', options);
  const {
    output,
    modelFiles = [],
    resume = false,
    retryErrors = false,
    overwrite = false,
    published = false,
    errors,
  } = options;
  if (retryErrors && !resume)
    throw new UsageError('`retryErrors` goes with `resume`: it redoes the error rows of an output that exists');
  if (resume && overwrite)
    throw new UsageError('`resume` and `overwrite` contradict each other: go on with the output, or begin anew?');

  const inputs = options.input === undefined ? [] : [options.input].flat();
  const inputStats: Stats[] = [];
  for (const input of inputs) {
    const stats = await statOf(input);
    if (stats === undefined) throw new JobFileError(input, 'cannot be read: no such file or folder (ENOENT)');
    if (stats.isDirectory()) throw new JobFileError(input, 'cannot be read: it is a folder, expected a file of rows');
    await access(input, constants.R_OK).catch((error: unknown) => {
      throw fileFailure(input, 'read', error);
    });
    if (inputs.length > 1 && !stats.isFile()) {
      throw new JobFileError(
        input,
        `cannot be read: it is ${specialKind(stats) ?? 'no file'}, expected a file, as the others are`,
      );
    }
    inputStats.push(stats);
  }
  if (output !== undefined) {
    await checkDistinctFiles([
      ...inputs.map((path) => ({ name: 'input', path, written: false })),
      ...modelFiles.map((path) => ({ name: 'the model', path, written: false })),
      ...(await jobOutputFiles({ output, errors })),
    ]);
  }
  const state: JobFileState = {
    input: inputStats.length === 0 ? 'none' : inputStats.every((stats) => stats.isFile()) ? 'regular' : 'special',
    output: output === undefined ? checkNoOutput(resume) : await checkOutput(output, { resume, overwrite, published }),
  };
  if (errors !== undefined) await checkErrors(errors, state.output === 'special' ? undefined : output);
  return state;
}

function checkNoOutput(resume: boolean): 'none' {
  if (resume) throw new UsageError('`resume` needs a file as `output`: a stream cannot be read again');
  return 'none';
}

/**
 * Rows that failed go into a file that is not there, is empty, or is this job's from an earlier run.
 * @throws UsageError, JobFileError unless they can be put there
 */
async function checkErrors(path: string, output: string | undefined): Promise<void> {
  const stats = await statOf(path);
  if (stats === undefined) return checkFolder(path);
  if (!stats.isFile()) {
    throw new JobFileError(
      path,
      `cannot be written: it is ${specialKind(stats) ?? 'no file'}, expected a file, or nothing`,
    );
  }
  await checkWritable(path);
  if (stats.size === 0 || (output !== undefined && (await isErrorsOf(output, path)))) return;
  throw new UsageError(
    `${path}: found a file that is not the errors of this job, expected none; move it away, or give another`,
  );
}

async function checkFolder(path: string): Promise<void> {
  const folder = await statOf(dirname(path));
  if (folder?.isDirectory() !== true)
    throw new JobFileError(path, `cannot be written: there is no folder ${dirname(path)}`);
  await checkWritable(dirname(path), path);
}

async function checkOutput(
  path: string,
  {
    resume,
    overwrite,
    published,
  }: { readonly resume: boolean; readonly overwrite: boolean; readonly published: boolean },
): Promise<JobFileState['output']> {
  const place = await realPathOf(path);
  const own = await statOf(path);
  if (own?.isDirectory() === true) throw new JobFileError(path, 'cannot be written: it is a folder, expected a file');
  // What a process has open is written through, whatever it is: it may be after something that stands there already.
  if (own !== undefined && (!own.isFile() || (await descriptorOf(path)) !== undefined)) {
    if (resume) throw new UsageError(`\`resume\` needs a regular file as output: ${path} cannot be read again`);
    return 'special';
  }
  if (own !== undefined && own.nlink > 1 && !published) {
    throw new UsageError(
      `${path}: found a file with ${own.nlink} names (hard links), expected one: another job could write to it by another; give another output, or copy it`,
    );
  }
  // Until a run has ended there may be the journal alone.
  const kept = own !== undefined ? path : hasJournal(place) ? journalPath(place) : undefined;
  if (kept === undefined) await checkFolder(place);
  else if (!resume && !overwrite)
    throw new UsageError(`${kept} exists; \`resume\` goes on with it, \`overwrite\` begins anew`);
  if (kept !== undefined) await checkWritable(kept);
  checkSidecars(place, published);
  return kept === undefined ? 'absent' : 'regular';
}

/** Here, and not once a model has been opened. @throws JobFileError naming `file` */
async function checkWritable(place: string, file = place): Promise<void> {
  await access(place, constants.W_OK).catch((error: unknown) => {
    throw fileFailure(file, 'written', error);
  });
}

async function statOf(path: string): Promise<Stats | undefined> {
  try {
    return await ifThere(stat(path));
  } catch (error) {
    throw fileFailure(path, 'used', error);
  }
}
