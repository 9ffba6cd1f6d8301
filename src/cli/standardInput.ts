import { fstatSync, ReadStream } from 'node:fs';
import { Socket } from 'node:net';
import { JobFileError, specialKind } from './library.js';
import { wasClosed } from './standardOutput.js';

/**
 * Refuses a standard input that no rows can come from: one that was closed when the process began, a folder, a socket of datagrams. Node takes each of them
 * for an empty one, and an empty input is a job that is done.
 * @throws JobFileError
 */
export function checkStandardInput(): void {
  const found = wasClosed(0) ? 'it closed' : process.stdin instanceof ReadStream || process.stdin instanceof Socket ? undefined : kindOf(0);
  if (found === undefined) return;
  throw new JobFileError('standard input', `cannot be read: found ${found}, expected a file, pipe or terminal; of nothing at all, /dev/null is the file`);
}

function kindOf(descriptor: number): string {
  const stats = fstatSync(descriptor);
  return stats.isSocket() ? 'a socket of datagrams' : (specialKind(stats) ?? 'something unreadable');
}
