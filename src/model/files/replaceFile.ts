import { randomBytes } from 'node:crypto';
import { open, rename, rm } from 'node:fs/promises';
import { dirname } from 'node:path';

/**
 * Puts a file in place as a whole: a reader, or whoever comes after a crash, sees the old content or the new, never a part. The folder has to be there.
 * @throws the file system's errors
 */
export async function replaceFile(path: string, content: string): Promise<void> {
  const temporary = `${path}.${process.pid}-${randomBytes(4).toString('hex')}.tmp`;
  try {
    const handle = await open(temporary, 'wx');
    try {
      await handle.writeFile(content);
      await handle.sync();
    } finally {
      await handle.close();
    }
    await rename(temporary, path);
    await syncFolder(path);
  } catch (error) {
    await rm(temporary, { force: true });
    throw error;
  }
}

/** Makes a new or renamed entry of a folder durable. Not every file system can; those that cannot need no such call. */
export async function syncFolder(path: string): Promise<void> {
  try {
    const folder = await open(dirname(path), 'r');
    try {
      await folder.sync();
    } finally {
      await folder.close();
    }
  } catch {
    // The entry itself is written; only its durability over a power loss is the file system's own affair here.
  }
}
