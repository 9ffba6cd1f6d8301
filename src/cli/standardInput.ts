import { fstatSync, ReadStream } from 'node:fs';
import { Socket } from 'node:net';
import { JobFileError, specialKind } from './library.js';
import { wasClosed } from './standardOutput.js';

/**
 * Refuses a standard input that no rows can come from: a folder, a socket of datagrams. Node takes each of them for an
 * empty one, and an empty input is a job that is done. One that was closed when the process began cannot be told from
 * /dev/null as other programs give it (Python's `subprocess.DEVNULL`, open for reading and writing): an empty input on
 * purpose, at most. So it is one, and a word says so.
 * @throws JobFileError
 */
export function checkStandardInput(say: (text: string) => void): void {
  if (wasClosed(0)) say('standard input is closed or /dev/null: there are no rows');
  const found = process.stdin instanceof ReadStream || process.stdin instanceof Socket ? undefined : kindOf(0);
  if (found === undefined) return;
  throw new JobFileError(
    'standard input',
    `cannot be read: found ${found}, expected a file, pipe or terminal; of nothing at all, /dev/null is the file`,
  );
}

function kindOf(descriptor: number): string {
  const stats = fstatSync(descriptor);
  return stats.isSocket() ? 'a socket of datagrams' : (specialKind(stats) ?? 'something unreadable');
}
