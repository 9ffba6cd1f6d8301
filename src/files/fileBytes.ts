import { createHash } from 'node:crypto';
import { type BigIntStats, closeSync, fstat, openSync, read } from 'node:fs';
import { stat } from 'node:fs/promises';
import { addAbortSignal } from 'node:stream';
import { promisify } from 'node:util';
import { InterruptedError } from '../errors/InterruptedError.js';
import { JobFileError } from '../errors/JobFileError.js';
import { readFailure } from './fileErrors.js';
import { ifThere } from './ifThere.js';
import { openReadable } from './specialFiles.js';

/**
 * The bytes of a file, FIFO, terminal or device, as they come.
 * @param signal closes it at any time, also while nobody writes to it
 * @throws InterruptedError once the signal has fired; JobFileError for a file that was written to meanwhile; the
 * system's errors
 */
export async function* bytesOf(path: string, signal?: AbortSignal): AsyncGenerator<Buffer, void, undefined> {
  const stream = await openReadable(path);
  // Whoever iterates hears of a failure; until somebody does, one would be nobody's.
  stream.on('error', () => undefined);
  try {
    yield* unchangedBytes(
      (signal === undefined ? stream : addAbortSignal(signal, stream)) as AsyncIterable<Buffer>,
      path,
      path,
    );
  } catch (error) {
    throw signal?.aborted === true ? new InterruptedError(signal.reason) : error;
  } finally {
    stream.destroy();
  }
}

/** Bytes whose source's failures are those of a file. @throws JobFileError, and other errors of ours as they are */
export async function* readable(
  chunks: AsyncIterable<Uint8Array | string>,
  name: string,
): AsyncGenerator<Uint8Array | string, void, undefined> {
  try {
    yield* chunks;
  } catch (error) {
    throw readFailure(name, error);
  }
}

const statOpen = promisify(fstat);
const readAt = promisify(read);

/** Bytes that are read at a time where content is compared. */
const BLOCK_BYTES = 2 ** 20;

/**
 * Hands bytes on as they come. Where they are those of a regular file that is read once, as standard input is that
 * comes from one, its length and its times are compared at the end: a file that was written to meanwhile may have lost
 * rows, or hold rows of two versions. Where only the time of change (ctime) differs, which no program can set back, the
 * bytes that were read are compared with those that are there by then: the time of modification may have been set back,
 * or the file was renamed or given another mode, which is no matter.
 * @param bytes up to the file's end
 * @param file where it stands, or the descriptor that it is open by
 * @param name what errors call it
 * @throws JobFileError
 */
export async function* unchangedBytes<T extends Uint8Array | string>(
  bytes: AsyncIterable<T>,
  file: string | number,
  name: string,
): AsyncGenerator<T, void, undefined> {
  const before = await statsOf(file);
  if (before?.isFile() !== true) {
    yield* bytes;
    return;
  }
  const hash = createHash('sha256');
  let length = 0;
  for await (const chunk of bytes) {
    hash.update(chunk);
    length += Buffer.byteLength(chunk);
    yield chunk;
  }
  const now = await statsOf(file);
  // One that was moved away or deleted has what it had. (Some files of the system have no size, and any time.)
  if (now === undefined || now.size + before.size === 0n) return;
  const refuse = (how: string, found: string, expected: string): never => {
    throw new JobFileError(
      name,
      `the input ${how} during the run: found ${found}, expected ${expected}; rows that were finished are intact`,
    );
  };
  if (now.size !== before.size)
    refuse(
      now.size < before.size ? 'shrank' : 'grew',
      `${now.size} bytes`,
      `the ${before.size} bytes that were there when it began`,
    );
  if (now.mtimeNs !== before.mtimeNs || now.ino !== before.ino || now.dev !== before.dev) {
    refuse('changed', `it written to at ${now.mtime.toISOString()}`, `nothing since ${before.mtime.toISOString()}`);
  }
  if (now.ctimeNs === before.ctimeNs) return;
  // What came was the file's end: all of it, or from where another program had left the descriptor.
  const end = await ifThere(hashOfEnd(file, Number(now.size), length));
  if (end === undefined || end === hash.digest('hex')) return;
  refuse(
    'changed',
    `other bytes in it, written at ${now.ctime.toISOString()} after an older time of modification`,
    'those that were read',
  );
}

/** SHA-256 of the last `length` bytes of a file of so many; empty where there are fewer by now. */
async function hashOfEnd(file: string | number, size: number, length: number): Promise<string> {
  const descriptor = typeof file === 'number' ? file : openSync(file, 'r');
  try {
    const hash = createHash('sha256');
    const buffer = Buffer.allocUnsafe(Math.min(BLOCK_BYTES, length));
    // At positions, so that what else reads by this descriptor finds it where it was.
    for (let left = length; left > 0;) {
      const { bytesRead } = await readAt(descriptor, buffer, 0, Math.min(buffer.length, left), size - left);
      if (bytesRead === 0) return '';
      hash.update(buffer.subarray(0, bytesRead));
      left -= bytesRead;
    }
    return hash.digest('hex');
  } finally {
    if (typeof file === 'string') closeSync(descriptor);
  }
}

function statsOf(file: string | number): Promise<BigIntStats | undefined> {
  return ifThere(typeof file === 'string' ? stat(file, { bigint: true }) : statOpen(file, { bigint: true }));
}
