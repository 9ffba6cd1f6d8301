import { fileErrorCode } from './fileErrors.js';

/**
 * Gives what becomes of a file operation; undefined where the file is not there, as where another process has just
 * renamed it.
 * @throws the system's other errors
 */
export async function ifThere<T>(operation: Promise<T>): Promise<T | undefined> {
  try {
    return await operation;
  } catch (error) {
    if (fileErrorCode(error) === 'ENOENT') return undefined;
    throw error;
  }
}
