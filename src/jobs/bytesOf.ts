import { addAbortSignal } from 'node:stream';
import { InterruptedError } from '../errors/InterruptedError.js';
import { openReadable } from './specialFiles.js';
import { unchangedBytes } from './unchangedBytes.js';

/**
 * The bytes of a file, FIFO, terminal or device, as they come.
 * @param signal closes it at any time, also while nobody writes to it
 * @throws InterruptedError once the signal has fired; JobFileError for a file that was written to meanwhile; the system's errors
 */
export async function* bytesOf(path: string, signal?: AbortSignal): AsyncGenerator<Buffer, void, undefined> {
  const stream = await openReadable(path);
  try {
    yield* unchangedBytes((signal === undefined ? stream : addAbortSignal(signal, stream)) as AsyncIterable<Buffer>, path, path);
  } catch (error) {
    throw signal?.aborted === true ? new InterruptedError(signal.reason) : error;
  } finally {
    stream.destroy();
  }
}
