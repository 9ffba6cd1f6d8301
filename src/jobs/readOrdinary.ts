import { closeSync, constants, fstatSync, openSync, readSync, statSync } from 'node:fs';
import { JobFileError } from '../errors/JobFileError.js';
import { fileErrorCode, fileFailure } from './fileErrors.js';
import { specialKind } from './specialFiles.js';

/**
 * The beginning of a small file of the job's own, which may be any file. Undefined if there is none. It is never waited
 * for: opening a FIFO would take a writer.
 * @param expected what the job keeps there, for the message
 * @throws JobFileError for what cannot be read, and for a folder, FIFO, socket or device
 */
export function readOrdinary(path: string, mostBytes: number, expected: string): string | undefined {
  const check = (stats: ReturnType<typeof statSync>): void => {
    const kind = stats && specialKind(stats);
    if (kind !== undefined) {
      throw new JobFileError(
        path,
        `found ${kind}, expected no file or ${expected}; move it away, or give another output`,
      );
    }
  };
  try {
    // Before it is opened, too: opening a device may do something.
    check(statSync(path));
    const file = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
    try {
      const stats = fstatSync(file);
      check(stats);
      const buffer = Buffer.alloc(Math.min(mostBytes, stats.size));
      return buffer.toString('utf8', 0, readSync(file, buffer));
    } finally {
      closeSync(file);
    }
  } catch (error) {
    if (fileErrorCode(error) === 'ENOENT') return undefined;
    throw fileFailure(path, 'read', error);
  }
}
