import { InterruptedError } from '../errors/InterruptedError.js';
import { fromNativeError } from './nativeCall.js';

/**
 * Calls the addon for work that it does beside JavaScript, tells of its progress, and gives up once a signal fires, or
 * once whoever is told of it throws.
 *
 * @param start makes the call; what it hands over as `onProgress` returns false once nothing more is wanted
 * @throws InterruptedError when the signal fires before the work is done; what `report` threw; what the addon threw, as
 * `nativeCall` has it
 */
export async function stoppable<A extends unknown[], T>(
  signal: AbortSignal | undefined,
  report: ((...progress: A) => void) | undefined,
  start: (onProgress: (...progress: A) => boolean) => Promise<T>,
): Promise<T> {
  const stopped = (): boolean => signal?.aborted === true;
  if (stopped()) throw new InterruptedError(signal?.reason);
  const thrown: unknown[] = [];
  try {
    const result = await start((...progress) => {
      if (stopped() || thrown.length > 0) return false;
      try {
        report?.(...progress);
      } catch (error) {
        thrown.push(error);
      }
      return !stopped() && thrown.length === 0;
    });
    if (thrown.length === 0) return result;
  } catch (error) {
    if (thrown.length === 0) throw stopped() ? new InterruptedError(signal?.reason) : fromNativeError(error);
  }
  throw thrown[0];
}
