import { replaceFile } from '../model/files/replaceFile.js';
import { fileFailure } from './fileErrors.js';

/**
 * Puts a file in place as a whole: a reader, or whoever comes after a crash, sees the old content or the new, never a part.
 * @throws JobFileError
 */
export async function writeFileAtomic(path: string, content: string): Promise<void> {
  try {
    await replaceFile(path, content);
  } catch (error) {
    throw fileFailure(path, 'written', error);
  }
}
