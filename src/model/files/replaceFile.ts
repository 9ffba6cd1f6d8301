import { open, realpath, rename, rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { removeLeftovers, temporaryPath } from './temporaryFiles.js';

/**
 * Puts a file in place as a whole: a reader, or whoever comes after a crash, sees the old content or the new, never a
 * part. The folder has to be there. A link stays a link.
 * @throws the file system's errors
 */
export async function replaceFile(path: string, content: string): Promise<void> {
  const place = await realpath(path).catch(() => path);
  removeLeftovers(place);
  await withTemporary(place, content, async (temporary) => {
    await rename(temporary, place);
    await syncFolder(place);
  });
}

/** Writes as `replaceFile` does, and takes it back: what would fail then fails now. @throws the file system's errors */
export async function probeFile(path: string, content: string): Promise<void> {
  const place = await realpath(path).catch(() => path);
  await withTemporary(place, content, (temporary) => rm(temporary));
}

/** Tries whether files can be made in a folder, and leaves none. @throws the file system's errors */
export async function probeFolder(path: string): Promise<void> {
  await withTemporary(join(path, 'probe'), '', (temporary) => rm(temporary));
}

async function withTemporary(place: string, content: string, use: (temporary: string) => Promise<void>): Promise<void> {
  const temporary = temporaryPath(place);
  try {
    const handle = await open(temporary, 'wx');
    try {
      await handle.writeFile(content);
      await handle.sync();
    } finally {
      await handle.close();
    }
    await use(temporary);
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
