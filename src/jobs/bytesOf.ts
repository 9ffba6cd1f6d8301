import { addAbortSignal } from 'node:stream';
import { InterruptedError } from '../errors/InterruptedError.js';
import { readFailure } from './fileErrors.js';
import { openReadable } from './specialFiles.js';
import { unchangedBytes } from './unchangedBytes.js';

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
