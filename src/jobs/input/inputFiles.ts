import { lstat } from 'node:fs/promises';
import { glob, isDynamicPattern } from 'tinyglobby';
import { JobFileError } from '../../errors/JobFileError.js';

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
 * behind if their names do. What is there is never taken for a pattern.
 * @throws JobFileError for a pattern of which there is no file
 */
export async function inputFiles(input: InputPaths): Promise<readonly string[]> {
  const files = new Set<string>();
  for (const path of typeof input === 'string' ? [input] : input) {
    const there = await lstat(path).then(
      () => true,
      () => false,
    );
    if (there || !isDynamicPattern(path)) files.add(path);
    else for (const file of await matching(path)) files.add(file);
  }
  return [...files];
}

async function matching(pattern: string): Promise<readonly string[]> {
  const files = await glob(pattern, { expandDirectories: false, absolute: pattern.startsWith('/') });
  if (files.length === 0) {
    throw new JobFileError(
      pattern,
      'found no file of that name, and none that it is a pattern for, expected one at least',
    );
  }
  return files.sort((a, b) => (a < b ? -1 : 1));
}
