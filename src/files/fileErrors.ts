import { JobFileError } from '../errors/JobFileError.js';
import { SpillwayError } from '../errors/SpillwayError.js';

/**
 * The system's code of a failed file operation, e.g. `ENOSPC`; undefined for other errors. Told by shape: errors may
 * come from another realm.
 */
export function fileErrorCode(error: unknown): string | undefined {
  const code = typeof error === 'object' && error !== null && 'code' in error ? error.code : undefined;
  return typeof code === 'string' ? code : undefined;
}

/** The remedy for an output that cannot be gone on with, for users of the command line and of the library. */
export const BEGIN_ANEW = '`overwrite: true` begins anew';

const REASONS: Readonly<Record<string, string>> = {
  ENOENT: 'no such file or folder',
  EACCES: 'permission denied',
  EPERM: 'not permitted',
  EISDIR: 'it is a folder',
  ENOTDIR: 'a part of the path is not a folder',
  ENOSPC: 'no space left on the device',
  EDQUOT: 'the disk quota is used up',
  EROFS: 'the file system is read-only',
  EIO: 'input/output error of the device',
  EFBIG: 'the file would exceed the size limit',
  EMFILE: 'too many open files',
  EBUSY: 'it is in use by the system, as a mount is',
  ETXTBSY: 'it is a program that runs',
  ESTALE: 'the server of its file system has lost it',
  EXDEV: 'it lies on another file system',
  ELOOP: 'its links lead in a circle',
  ENAMETOOLONG: 'its name is too long',
  ENFILE: 'the system has too many open files',
  EEXIST: 'something stands there already',
  ENOTEMPTY: 'the folder is not empty',
  ENOTSUP: 'the file system cannot do that',
  EINVAL: 'the file system cannot do that',
  ENXIO: 'it is a socket, or a device that is not there',
};

/** Why a file operation failed, in words: `no space left on the device (ENOSPC)`. */
export function describeFileError(error: unknown): string {
  const code = fileErrorCode(error);
  const reason = code === undefined ? undefined : REASONS[code];
  if (reason !== undefined) return `${reason} (${code})`;
  return typeof error === 'object' && error !== null && 'message' in error ? String(error.message) : String(error);
}

/**
 * The error of a file operation that failed; one that says so already stays as it is. @param what could not be done
 * with the file: `read`, `written`
 */
export function fileFailure(path: string, what: string, error: unknown): JobFileError {
  return error instanceof JobFileError
    ? error
    : new JobFileError(path, `cannot be ${what}: ${describeFileError(error)}`, { cause: error });
}

/** The error of reading a file that failed; one of ours stays as it is. */
export function readFailure(path: string, error: unknown): SpillwayError {
  return error instanceof SpillwayError ? error : fileFailure(path, 'read', error);
}
