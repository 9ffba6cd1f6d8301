import { addAbortSignal } from 'node:stream';
import { InterruptedError } from '../errors/InterruptedError.js';
import { openReadable } from './specialFiles.js';

/**
 * The bytes of a file, FIFO, terminal or device, as they come.
 * @param signal closes it at any time, also while nobody writes to it
 * @throws InterruptedError once the signal has fired; the system's errors
 */
export async function* bytesOf(path: string, signal?: AbortSignal): AsyncGenerator<Buffer, void, undefined> {
  const stream = await openReadable(path);
  try {
    yield* (signal === undefined ? stream : addAbortSignal(signal, stream)) as AsyncIterable<Buffer>;
  } catch (error) {
    throw signal?.aborted === true ? new InterruptedError(signal.reason) : error;
  } finally {
    stream.destroy();
  }
}
