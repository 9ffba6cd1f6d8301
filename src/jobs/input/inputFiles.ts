import { readdir, realpathSync } from 'node:fs';
import { lstat } from 'node:fs/promises';
import { basename, dirname } from 'node:path';
import { glob, isDynamicPattern } from 'tinyglobby';
import { JobFileError } from '../../errors/JobFileError.js';
import { UsageError } from '../../errors/UsageError.js';
import { type NamedFile, realPathOf } from '../../files/realPath.js';

/** Files of rows: a path or a pattern (`data/*.parquet`), or several of them. */
export type InputPaths = string | readonly string[];

export function isInputPaths(input: unknown): input is InputPaths {
  return (
    typeof input === 'string' ||
    (Array.isArray(input) && input.length > 0 && input.every((path) => typeof path === 'string'))
  );
}

/**
 * The files that are named, in this order; those of a pattern by their names, so that files which come later stand
 * after if their names do. What is there is never taken for a pattern.
 * @throws JobFileError for a pattern of which there is no file
 */
export async function inputFiles(input: InputPaths): Promise<readonly string[]> {
  const files = new Set<string>();
  for (const path of typeof input === 'string' ? [input] : input) {
    if (!(await isPattern(path))) files.add(path);
    else for (const file of await matching(path)) files.add(file);
  }
  return [...files];
}

/**
 * Refuses files that are to be written and that a pattern of the input stands for: the next run would read them.
 * @throws UsageError naming the first
 */
export async function checkUnmatched(input: InputPaths, written: readonly NamedFile[]): Promise<void> {
  const places = new Map<string, NamedFile>();
  for (const file of written) places.set(await realPathOf(file.path), file);
  for (const pattern of typeof input === 'string' ? [input] : input) {
    if (!(await isPattern(pattern))) continue;
    for (const path of await globbed(pattern, [...places.keys()])) {
      const file = places.get(await realPathOf(path));
      if (file === undefined) continue;
      throw new UsageError(
        `${file.name}: found ${file.path}, which the input's pattern ${pattern} stands for, too, so that a run that goes on would read it as rows; expected another folder or name, or a pattern that leaves it out`,
      );
    }
  }
}

/** A path that is there is never taken for a pattern. */
async function isPattern(path: string): Promise<boolean> {
  if (!isDynamicPattern(path)) return false;
  return lstat(path).then(
    () => false,
    () => true,
  );
}

/** The files that a pattern stands for, as if these were there, too. */
function globbed(pattern: string, others: readonly string[] = []): Promise<readonly string[]> {
  const list = (folder: string, options: { readonly withFileTypes: true }, done: Listed): void => {
    readdir(folder, options, (error, entries) => {
      // A folder that is not there holds none of them.
      if (error !== null) {
        done(error, []);
        return;
      }
      const place = realpathSync(folder);
      const names = new Set(entries.map(({ name }) => name));
      const added = others
        .filter((path) => dirname(path) === place && !names.has(basename(path)))
        .map((path) => new File(basename(path)));
      done(null, [...entries, ...added]);
    });
  };
  return glob(pattern, {
    expandDirectories: false,
    absolute: pattern.startsWith('/'),
    ...(others.length > 0 && { fs: { readdir: list as typeof readdir } }),
  });
}

type Listed = (error: NodeJS.ErrnoException | null, entries: readonly object[]) => void;

/** An entry of a folder: a file that is still to be written. */
class File {
  constructor(readonly name: string) {}
  isFile = (): boolean => true;
  isDirectory = (): boolean => false;
  isSymbolicLink = (): boolean => false;
}

async function matching(pattern: string): Promise<readonly string[]> {
  const files = [...(await globbed(pattern))];
  if (files.length === 0) {
    throw new JobFileError(
      pattern,
      'found no file of that name, and none that it is a pattern for, expected one at least',
    );
  }
  return files.sort((a, b) => (a < b ? -1 : 1));
}
