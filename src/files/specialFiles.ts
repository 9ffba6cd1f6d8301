import {
  close,
  closeSync,
  constants,
  createReadStream,
  createWriteStream,
  fstat,
  fstatSync,
  open,
  openSync,
  readSync,
  type Stats,
  statSync,
} from 'node:fs';
import { stat } from 'node:fs/promises';
import { Socket } from 'node:net';
import type { Readable, Writable } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import { isatty, ReadStream, WriteStream } from 'node:tty';
import { promisify } from 'node:util';
import { JobFileError } from '../errors/JobFileError.js';
import { fileErrorCode, fileFailure } from './fileErrors.js';
import { descriptorOf } from './realPath.js';

/** How often a FIFO is tried that nobody reads yet: there is no event to wait for. */
const READER_POLL_MILLISECONDS = 50;
/** Read at a time. */
const PIECE_BYTES = 256 * 1024;
/**
 * Opening must not wait: it would do so in one of Node's few threads, which nothing can end, not even the end of the
 * process. Nor may a terminal become ours.
 */
const AT_ONCE = constants.O_NONBLOCK | constants.O_NOCTTY;

const [openFile, closeFile, statFile] = [promisify(open), promisify(close), promisify(fstat)];

/**
 * Names the kind of a file that is no regular one: `a folder`, `a FIFO`, `a socket`, `a device`; undefined for a
 * regular file.
 */
export function specialKind(stats: Pick<Stats, 'isFile' | 'isDirectory' | 'isFIFO' | 'isSocket'>): string | undefined {
  if (stats.isFile()) return undefined;
  return stats.isDirectory() ? 'a folder' : stats.isFIFO() ? 'a FIFO' : stats.isSocket() ? 'a socket' : 'a device';
}

/**
 * Opens whatever can be read: a file, a FIFO that nobody writes to yet, a terminal, a device. What comes from it is
 * waited for by the event loop, so that the stream can be destroyed at any time.
 * @throws the system's errors
 */
export async function openReadable(path: string): Promise<Readable> {
  const descriptor = await openFile(path, constants.O_RDONLY | AT_ONCE);
  return orClose(descriptor, (stats) => {
    if (stats.isFIFO()) return new Socket({ fd: descriptor, readable: true, writable: false });
    return isatty(descriptor)
      ? new ReadStream(descriptor)
      : createReadStream(path, { fd: descriptor, highWaterMark: PIECE_BYTES });
  });
}

/**
 * Opens a FIFO, as soon as somebody reads from it, a terminal or a device for writing; of a regular file that this
 * process has open it writes where that is.
 * @param signal ends the wait for a reader
 * @throws the system's errors; an AbortError
 */
export async function openSpecialWritable(path: string, signal: AbortSignal | undefined): Promise<Writable> {
  const own = await descriptorOf(path);
  if (own !== undefined && (await statFile(own)).isFile())
    return createWriteStream(path, { fd: own, autoClose: false });
  for (;;) {
    try {
      const descriptor = await openFile(path, constants.O_WRONLY | AT_ONCE);
      return await orClose(descriptor, (stats) => {
        if (stats.isFIFO()) return new Socket({ fd: descriptor, readable: false, writable: true });
        return isatty(descriptor) ? new WriteStream(descriptor) : createWriteStream(path, { fd: descriptor });
      });
    } catch (error) {
      // The system says so of a FIFO without a reader, and of sockets.
      if (fileErrorCode(error) !== 'ENXIO' || !(await stat(path)).isFIFO()) throw error;
    }
    await sleep(READER_POLL_MILLISECONDS, undefined, { signal });
  }
}

async function orClose<T>(descriptor: number, wrap: (stats: Stats) => T): Promise<T> {
  try {
    return wrap(await statFile(descriptor));
  } catch (error) {
    await closeFile(descriptor);
    throw error;
  }
}

/**
 * The beginning of a small file of the job's own, which may be any file. Undefined if there is none. It is never waited
 * for: opening a FIFO would take a writer.
 * @param expected what the job keeps there, for the message
 * @throws JobFileError for what cannot be read, and for a folder, FIFO, socket or device
 */
export function readRegularStart(path: string, mostBytes: number, expected: string): string | undefined {
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
