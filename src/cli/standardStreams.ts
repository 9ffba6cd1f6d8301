import { fstatSync, readFileSync, ReadStream, statSync } from 'node:fs';
import { Socket } from 'node:net';
import { Writable } from 'node:stream';
import { JobFileError, specialKind } from './library.js';
import { visible } from './table.js';

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

const READ_AND_WRITE = 2;

/**
 * Refuses to work for a standard output that was closed when the process began. Node puts /dev/null in its place then,
 * open for reading and writing as hardly anybody opens it. Nothing else tells the two apart, so programs that throw the
 * output of others away in just this way are told, too.
 * @throws JobFileError
 */
export function checkStandardOutput(): void {
  if (!wasClosed(1)) return;
  throw new JobFileError(
    'standard output',
    'cannot be written: found it closed, expected a file, pipe or terminal; to throw results away send them to /dev/null',
  );
}

/** Tells whether /dev/null stands in for what was closed; or was given, open for reading and writing. */
function wasClosed(descriptor: number): boolean {
  try {
    if (fstatSync(descriptor).rdev !== statSync('/dev/null').rdev) return false;
    const flags = /^flags:\s*([0-7]+)$/m.exec(readFileSync(`/proc/self/fdinfo/${descriptor}`, 'utf8'))?.[1];
    return flags !== undefined && (Number.parseInt(flags, 8) & 3) === READ_AND_WRITE;
  } catch {
    // A system that does not say: nothing is known against it.
    return false;
  }
}

/**
 * Where results go that have no file. On a terminal what it would act on is shown instead, as in all that is printed
 * there: rows hold what people have written.
 */
export function standardOutput(): Writable {
  const { stdout } = process;
  if (!stdout.isTTY) return stdout;
  return new Writable({
    decodeStrings: false,
    highWaterMark: stdout.writableHighWaterMark,
    write(chunk: string | Uint8Array, _encoding, done) {
      stdout.write(visible(typeof chunk === 'string' ? chunk : Buffer.from(chunk).toString('utf8')), (error) => {
        done(error);
      });
    },
  });
}
