import { stat, type FileHandle } from 'node:fs/promises';
import { JobFileError } from '../errors/JobFileError.js';
import { fileErrorCode } from './fileErrors.js';

type OpenFile = Pick<FileHandle, 'stat'>;

/**
 * Looks whether a file that is being written is as long as what was written to it. Writing would go on behind what
 * somebody cut, and leave a hole.
 * @throws JobFileError; the system's errors
 */
export async function checkLength(file: OpenFile, path: string, bytes: number): Promise<void> {
  const { size } = await file.stat({ bigint: true });
  if (size !== BigInt(bytes))
    throw changed(path, `was cut, or written to by somebody else (found ${size} bytes, wrote ${bytes})`);
}

/**
 * Looks whether the file stands where it is looked for: writing to one that was removed or replaced goes on all the
 * same.
 * @throws JobFileError; the system's errors
 */
export async function checkInPlace(file: OpenFile, path: string): Promise<void> {
  const own = await file.stat({ bigint: true });
  const there = await stat(path, { bigint: true }).catch((error: unknown) => {
    if (fileErrorCode(error) === 'ENOENT') return undefined;
    throw error;
  });
  if (there === undefined) throw changed(path, 'was removed');
  // There are file systems whose numbers of files are not the same twice.
  const same = there.dev === own.dev && there.ino === own.ino;
  if (!same && (there.size !== own.size || there.mtimeNs !== own.mtimeNs))
    throw changed(path, 'was replaced by another file');
}

function changed(path: string, how: string): JobFileError {
  return new JobFileError(
    path,
    `${how} during the run, expected it to be left alone; rows that it does not hold have to be done again`,
  );
}
