import { stat } from 'node:fs/promises';
import { UsageError } from '../errors/UsageError.js';
import { placeOf } from './place.js';

/** A file that a run reads or writes, and what the user calls it: `--stats`, `output`. */
export interface NamedFile {
  readonly name: string;
  readonly path: string;
  readonly written: boolean;
}

/**
 * Refuses to write a file that is read too, or written twice. Two names of one file (links, other ways to the same
 * folder) are one file; devices and pipes may serve several purposes.
 * @throws UsageError naming both
 */
export async function checkDistinctFiles(files: readonly NamedFile[]): Promise<void> {
  const seen = new Map<string, NamedFile>();
  for (const file of files) {
    const identity = await identityOf(file);
    if (identity === undefined) continue;
    const other = seen.get(identity);
    if (other !== undefined && (other.written || file.written))
      throw new UsageError(`${other.name} and ${file.name} name the same file: ${file.path}`);
    seen.set(identity, file);
  }
}

/** Undefined for what writing cannot destroy: devices, pipes, folders, and what is to be read and not there. */
async function identityOf({ path, written }: NamedFile): Promise<string | undefined> {
  const stats = await stat(path, { bigint: true }).catch(() => undefined);
  if (stats !== undefined) return stats.isFile() ? `${stats.dev}:${stats.ino}` : undefined;
  return written ? placeOf(path) : undefined;
}
