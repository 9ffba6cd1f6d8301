import { fileFailure } from './fileErrors.js';
import { putInPlace } from './putInPlace.js';

/**
 * Puts a file in place as a whole: a reader, or whoever comes after a crash, sees the old content or the new, never a
 * part.
 * @param mode permissions of a file that was not there
 * @throws JobFileError
 */
export async function writeFileAtomic(path: string, content: string, mode?: number): Promise<void> {
  try {
    await putInPlace(path, [content], mode);
  } catch (error) {
    throw fileFailure(path, 'written', error);
  }
}
