import { open, stat, writeFile } from 'node:fs/promises';
import { dirname } from 'node:path';
import { checkDistinctFiles, fileFailure, JobFileError, modelFiles, outputFiles, writeFileAtomic, type NamedFile, type RunStats } from './library.js';

/** The paths of a command; undefined where a flag is not given. */
export interface CommandPaths {
  /** A model's file or folder; all its files count. A name that is no path stands for none. */
  readonly model?: string | undefined;
  /** What else is read, by its flag. */
  readonly read: Readonly<Record<string, string | undefined>>;
  /** The output of a job, to which other files belong. */
  readonly output?: string | undefined;
  /** What is written at the end, over whatever is there, by its flag. */
  readonly reports: Readonly<Record<string, string | undefined>>;
}

/**
 * Refuses paths that would overwrite each other or what is read, and folders that are not there, before a long run.
 * @throws UsageError, JobFileError
 */
export async function checkCommandPaths({ model, read, output, reports }: CommandPaths): Promise<void> {
  await checkDistinctFiles([
    ...named(read, false),
    ...(model === undefined ? [] : await modelFiles(model)).map((path) => ({ name: '--model', path, written: false })),
    ...(output === undefined ? [] : outputFiles('--output', output)),
    ...named(reports, true),
  ]);
  for (const path of Object.values(reports)) if (path !== undefined) await checkWritable(path);
}

function named(flags: Readonly<Record<string, string | undefined>>, written: boolean): NamedFile[] {
  return Object.entries(flags).flatMap(([flag, path]) => (path === undefined ? [] : [{ name: `--${flag}`, path, written }]));
}

/** Refuses a path that is a folder, or in a folder that is not there. @throws JobFileError */
export async function checkWritable(path: string): Promise<void> {
  const stats = await stat(path).catch(() => undefined);
  if (stats?.isDirectory() === true) throw new JobFileError(path, 'cannot be written: it is a folder, expected a file');
  await open(dirname(path), 'r').then(
    (folder) => folder.close(),
    (error: unknown) => {
      throw fileFailure(path, 'written', error);
    },
  );
}

/** @throws JobFileError */
export async function writeStats(path: string, stats: RunStats): Promise<void> {
  const text = `${JSON.stringify(stats, undefined, 2)}\n`;
  const existing = await stat(path).catch(() => undefined);
  if (existing === undefined || existing.isFile()) return writeFileAtomic(path, text);
  try {
    await writeFile(path, text);
  } catch (error) {
    throw fileFailure(path, 'written', error);
  }
}
