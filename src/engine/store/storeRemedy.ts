import { closeSync, openSync, readSync, rmSync } from 'node:fs';
import { ModelFileError } from '../../errors/ModelFileError.js';

/** The beginning of a store (native/model/StoreFormat.cpp). */
const MAGIC = 'SPILLWAY';

/**
 * Removes a repacked model that turned out to be damaged, so that it is made anew. Nothing is lost by that: it was made
 * from the model, and processes that have it open keep what they have. A file that does not begin like a store is
 * somebody else's, and stays.
 *
 * @returns whether there is no such file now
 */
export function discardStore(path: string): boolean {
  try {
    if (!beginsLikeStore(path)) return false;
    rmSync(path);
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'ENOENT';
  }
  return true;
}

/** Discards a store that cannot be used. @returns what is to be done about it, for the end of an error message */
export function storeRemedy(path: string): string {
  return discardStore(path)
    ? 'this file was made from the model and has been removed: run again, and it is made anew'
    : 'remove this file and run again, or name another folder for repacked models (disk)';
}

/** The same for an error: one about the store at this path says what is to be done, any other is returned as it is. */
export function withStoreRemedy(error: unknown, path: string | undefined): unknown {
  if (!(error instanceof ModelFileError) || path === undefined || error.file !== path) return error;
  return new ModelFileError(path, error.field, error.found, `${error.expected}; ${storeRemedy(path)}`, {
    cause: error,
  });
}

/** An empty file does, too: it is what is left where a disk lost all of it. */
function beginsLikeStore(path: string): boolean {
  const file = openSync(path, 'r');
  try {
    const bytes = Buffer.alloc(MAGIC.length);
    const length = readSync(file, bytes, 0, bytes.length, 0);
    return bytes.toString('latin1', 0, length) === MAGIC.slice(0, length);
  } finally {
    closeSync(file);
  }
}
