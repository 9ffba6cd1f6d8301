import { ModelFileError } from '../errors/ModelFileError.js';
import { NativeError } from '../errors/engineErrors.js';
import { SpillwayError } from '../errors/SpillwayError.js';

/**
 * The code that the addon's errors carry: `errorCodeName` of native/system/Error.h, and for a file's the parts of the
 * message.
 */
export type NativeErrorCode =
  'invalid-argument' | 'file' | 'busy' | 'memory' | 'cancelled' | 'dependency' | 'peer' | 'internal';

/**
 * An error of the addon as one of the library's: ModelFileError for a file that does not hold what was expected,
 * NativeError for the rest, each with the addon's error as its `cause`. Anything that is not the addon's is returned as
 * it is. (Errors made in native code are not `instanceof Error` inside jest, so it goes by their fields.)
 */
export function fromNativeError(error: unknown): unknown {
  const code = field(error, 'code');
  const message = field(error, 'message');
  if (code === undefined || message === undefined || !isNativeErrorCode(code)) return error;
  return convert(error, code, message);
}

/**
 * Calls the addon; what it throws becomes one of the library's errors. For what it does beside JavaScript there is
 * `stoppable`.
 */
export function nativeCall<T>(call: () => T): T {
  try {
    return call();
  } catch (error) {
    throw fromNativeError(error);
  }
}

/** Tells whether an error of the library stands for one of the addon with this code. */
export function isNativeError(error: unknown, code: NativeErrorCode): boolean {
  return error instanceof SpillwayError && field(error.cause, 'code') === code;
}

function convert(error: unknown, code: NativeErrorCode, message: string): SpillwayError {
  const [file, what, found, expected] = ['file', 'field', 'found', 'expected'].map((name) => field(error, name));
  if (
    (code === 'file' || code === 'busy') &&
    file !== undefined &&
    what !== undefined &&
    found !== undefined &&
    expected !== undefined
  ) {
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
  return ['invalid-argument', 'file', 'busy', 'memory', 'cancelled', 'dependency', 'peer', 'internal'].includes(code);
}
