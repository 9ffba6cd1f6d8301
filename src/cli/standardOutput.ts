import { fstatSync, readFileSync, statSync } from 'node:fs';
import { JobFileError } from './library.js';

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

/** Whether /dev/null stands in for what was closed; or was given, open for reading and writing. */
export function wasClosed(descriptor: number): boolean {
  try {
    if (fstatSync(descriptor).rdev !== statSync('/dev/null').rdev) return false;
    const flags = /^flags:\s*([0-7]+)$/m.exec(readFileSync(`/proc/self/fdinfo/${descriptor}`, 'utf8'))?.[1];
    return flags !== undefined && (Number.parseInt(flags, 8) & 3) === READ_AND_WRITE;
  } catch {
    // A system that does not say: nothing is known against it.
    return false;
  }
}
