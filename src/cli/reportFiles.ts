import { open, stat } from 'node:fs/promises';
import { resolve } from 'node:path';
import {
  checkDistinctFiles,
  checkUnmatched,
  fileFailure,
  JobFileError,
  jobOutputFiles,
  modelFiles,
  probeFile,
  specialKind,
  UsageError,
  writeFileAtomic,
  type NamedFile,
  type TruthReport,
  type DryRunReport,
  type RunStats,
} from './library.js';

/** About as much as a report is. */
const PROBE = ' '.repeat(16 * 1024);

/** The paths of a command; undefined where a flag is not given. */
export interface CommandPaths {
  /** A model's file or folder; all its files count. A name that is no path stands for none. */
  readonly model?: string | undefined;
  /** All else that is read, by its flag. */
  readonly read: Readonly<Record<string, string | readonly string[] | undefined>>;
  /** The input as it was given, patterns among it, none of which may stand for what is written. */
  readonly patterns?: string;
  /** The output of a job, to which other files belong. */
  readonly output?: string | undefined;
  /** Where rows that failed go. */
  readonly errors?: string | undefined;
  /** A file of answers that last. */
  readonly kept?: string | undefined;
  /** The files written at the end, in place of whatever is there, by their flags. */
  readonly reports: Readonly<Record<string, string | undefined>>;
  /** The file written all the time, over whatever is there. */
  readonly trace: string | undefined;
}

/**
 * Refuses paths that would overwrite each other or what is read, and reports that cannot be written, before a long run.
 * @throws UsageError, JobFileError
 */
export async function checkCommandPaths({
  model,
  read,
  patterns,
  output,
  errors,
  kept,
  reports,
  trace,
}: CommandPaths): Promise<void> {
  for (const [flag, path] of Object.entries({ errors, reuse: kept, ...reports, trace }))
    if (path === '-')
      throw new UsageError(
        `--${flag}: found -, expected a file (./- for one of that name): standard output is for what --output writes`,
      );
  await checkDistinctFiles([
    ...named(read, false),
    ...(model === undefined ? [] : await modelFiles(model)).map((path) => ({ name: '--model', path, written: false })),
    ...(await jobOutputFiles({ output, errors }, { output: '--output', errors: '--errors' })),
    ...(kept === undefined
      ? []
      : ['', '.old', '.lock'].map((ending) => ({ name: '--reuse', path: `${kept}${ending}`, written: true }))),
    ...named({ ...reports, trace }, true),
  ]);
  if (patterns !== undefined) await checkUnmatched(patterns, named({ reuse: kept, ...reports, trace }, true));
  for (const path of Object.values(reports)) if (path !== undefined) await checkWritable(path);
  if (trace !== undefined) await checkWritable(trace, true);
}

function named(flags: Readonly<Record<string, string | readonly string[] | undefined>>, written: boolean): NamedFile[] {
  return Object.entries(flags).flatMap(([flag, paths]) =>
    paths === undefined ? [] : [paths].flat().map((path) => ({ name: `--${flag}`, path, written })),
  );
}

/**
 * Refuses, before a long run, a report that could not be written after it: one that is no regular file, or for which
 * there is no folder, permission or room. Nothing is left.
 * @param inPlace it is written over what is there, not put in its place
 * @throws JobFileError; UsageError for a place of the system
 */
export async function checkWritable(path: string, inPlace = false): Promise<void> {
  // What is written there may be somebody's log, which a file put in its place would be lost to.
  if (/^\/(dev\/(std(in|out|err)$|fd\/)|proc\/[^/]+\/fd\/)/.test(resolve(path)))
    throw new UsageError(`${path}: found a place of the system, expected a file`);
  try {
    const stats = await stat(path).catch(() => undefined);
    const kind = stats && specialKind(stats);
    if (kind !== undefined)
      throw new JobFileError(path, `cannot be written: it is ${kind}, expected a file, or nothing`);
    if (inPlace && stats !== undefined) await (await open(path, 'r+')).close();
    else await probeFile(path, PROBE);
  } catch (error) {
    throw fileFailure(path, 'written', error);
  }
}

/** @throws JobFileError */
export async function writeStats(
  path: string,
  stats: (RunStats & { readonly truth?: TruthReport }) | DryRunReport,
): Promise<void> {
  await writeFileAtomic(path, `${JSON.stringify(stats, undefined, 2)}\n`);
}
