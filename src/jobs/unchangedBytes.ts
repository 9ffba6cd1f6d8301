import { fstat, type BigIntStats } from 'node:fs';
import { stat } from 'node:fs/promises';
import { promisify } from 'node:util';
import { JobFileError } from '../errors/JobFileError.js';
import { fileErrorCode } from './fileErrors.js';

const statOpen = promisify(fstat);

/**
 * Hands bytes on as they come. Where they are those of a regular file that is read once, as standard input is that comes from one, its
 * length and its time of change are compared at the end: a file that was written to meanwhile may have lost rows, or hold rows of two versions.
 * @param file where it stands, or the descriptor that it is open by
 * @param name what errors call it
 * @throws JobFileError
 */
export async function* unchangedBytes<T>(bytes: AsyncIterable<T>, file: string | number, name: string): AsyncGenerator<T, void, undefined> {
  const before = await statsOf(file);
  yield* bytes;
  const now = await statsOf(file);
  // One that was moved away or deleted has what it had. (Some files of the system have no size, and any time.)
  if (now === undefined || before?.isFile() !== true || now.size + before.size === 0n) return;
  if (now.size === before.size && now.mtimeNs === before.mtimeNs && now.ino === before.ino && now.dev === before.dev) return;
  const how = now.size < before.size ? 'shrank' : now.size > before.size ? 'grew' : 'changed';
  const [found, expected] =
    how === 'changed'
      ? [`it written to at ${now.mtime.toISOString()}`, `nothing since ${before.mtime.toISOString()}`]
      : [`${now.size} bytes`, `the ${before.size} bytes that were there when it began`];
  throw new JobFileError(name, `the input ${how} during the run: found ${found}, expected ${expected}; rows that were finished are intact`);
}

async function statsOf(file: string | number): Promise<BigIntStats | undefined> {
  try {
    return await (typeof file === 'string' ? stat(file, { bigint: true }) : statOpen(file, { bigint: true }));
  } catch (error) {
    if (fileErrorCode(error) === 'ENOENT') return undefined;
    throw error;
  }
}
