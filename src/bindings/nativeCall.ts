import { ModelFileError } from '../errors/ModelFileError.js';
import { NativeError } from '../errors/NativeError.js';
import type { SpillwayError } from '../errors/SpillwayError.js';

/** What the addon's errors carry: `errorCodeName` of native/runtime/Error.h, and for a file's the parts of the message. */
export type NativeErrorCode = 'invalid-argument' | 'file' | 'memory' | 'cancelled' | 'dependency' | 'peer' | 'internal';

/**
 * An error of the addon as one of the library's: ModelFileError for a file that does not hold what was expected, NativeError for the rest,
 * each with the addon's error as its `cause`. Anything that is not the addon's is returned as it is.
 * (Errors made in native code are not `instanceof Error` inside jest, so it goes by their fields.)
 */
export function fromNativeError(error: unknown): unknown {
  const code = field(error, 'code');
  const message = field(error, 'message');
  if (code === undefined || message === undefined || !isNativeErrorCode(code)) return error;
  return convert(error, code, message);
}

/** Calls the addon; what it throws becomes one of the library's errors. */
export function nativeCall<T>(call: () => T): T {
  try {
    return call();
  } catch (error) {
    throw fromNativeError(error);
  }
}

/** The same for a call that returns a promise. */
export async function nativeCallAsync<T>(call: () => Promise<T>): Promise<T> {
  try {
    return await call();
  } catch (error) {
    throw fromNativeError(error);
  }
}

/**
 * The same for a call that tells how far it is. The addon calls from where nobody could catch what `onProgress` throws, and the process would end: so the work is told to stop, by
 * the answer false, and once it has ended the promise rejects with what was thrown.
 *
 * @param call is to hand `told` to the addon
 * @param stop called beside, for work that goes on whatever it is answered
 */
export async function nativeCallReporting<Progress extends readonly unknown[], T>(
  call: (told: (...progress: Progress) => boolean) => Promise<T>,
  onProgress: (...progress: Progress) => void,
  stop: () => void = () => undefined,
): Promise<T> {
  let thrown: { readonly error: unknown } | undefined;
  const told = (...progress: Progress): boolean => {
    try {
      if (!thrown) onProgress(...progress);
    } catch (error) {
      thrown = { error };
      stop();
    }
    return !thrown;
  };
  const [outcome] = await Promise.allSettled([nativeCallAsync(() => call(told))]);
  // What stopped it is the reason, whatever came of the work.
  if (thrown) throw thrown.error;
  if (outcome.status === 'rejected') throw outcome.reason;
  return outcome.value;
}

function convert(error: unknown, code: NativeErrorCode, message: string): SpillwayError {
  const [file, what, found, expected] = ['file', 'field', 'found', 'expected'].map((name) => field(error, name));
  if (code === 'file' && file !== undefined && what !== undefined && found !== undefined && expected !== undefined) {
    return new ModelFileError(file, what, found, expected, { cause: error });
  }
  return new NativeError(message, { cause: error });
}

function field(error: unknown, name: string): string | undefined {
  if (typeof error !== 'object' || error === null) return undefined;
  const value: unknown = Reflect.get(error, name);
  return typeof value === 'string' ? value : undefined;
}

function isNativeErrorCode(code: string): code is NativeErrorCode {
  return ['invalid-argument', 'file', 'memory', 'cancelled', 'dependency', 'peer', 'internal'].includes(code);
}
