import { PeerError } from '../../../errors/engineErrors.js';
import { InterruptedError } from '../../../errors/InterruptedError.js';
import type { FrameConnection } from './FrameConnection.js';

/** Ends a connection on which something takes too long, or is not wanted any more; what waits for it rejects then. */
export async function within<T>(
  connection: FrameConnection,
  { seconds, signal }: { readonly seconds: number; readonly signal?: AbortSignal | undefined },
  what: string,
  act: () => Promise<T>,
): Promise<T> {
  const timer = setTimeout(() => {
    connection.destroy(new PeerError(`${connection.peer}: found no ${what} within ${seconds} s, expected one`));
  }, seconds * 1000);
  const onAbort = (): void => {
    connection.destroy();
  };
  signal?.addEventListener('abort', onAbort);
  try {
    if (signal?.aborted) onAbort();
    return await act();
  } catch (error) {
    connection.destroy();
    throw signal?.aborted ? new InterruptedError(signal.reason) : error;
  } finally {
    clearTimeout(timer);
    signal?.removeEventListener('abort', onAbort);
  }
}
