import { copyFile, open, rename, rm, stat, truncate } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { fileErrorCode, fileFailure } from './fileErrors.js';
import { realPathOf } from './realPath.js';
import { removeLeftovers, temporaryPath } from './temporaryFiles.js';

/** Written at a time. */
const PIECE_BYTES = 2 ** 20;
/** The bits of a file's mode that are about permissions. */
const PERMISSIONS = 0o7777;

/** Who may read and write what stands there; undefined where nothing does. */
export async function modeOf(path: string): Promise<number | undefined> {
  return stat(path).then(
    ({ mode }) => mode & PERMISSIONS,
    () => undefined,
  );
}

/** The content that a file is to hold, piece by piece. */
type Content = AsyncIterable<Uint8Array | string> | Iterable<Uint8Array | string>;

/**
 * Replaces a file as a whole: a reader, or whoever comes after a crash, sees the old content or the new, never a part.
 * The folder has to be there. A link stays a link.
 * @throws the file system's errors. What stood there is then as it was
 */
export async function replaceFile(path: string, content: string): Promise<void> {
  await replaceWith(await realPathOf(path), [content], undefined);
}

/**
 * Replaces a file as `replaceFile` does; permissions stay as they are.
 * @param otherwise the permissions of a file that was not there; default: as of any new file
 * @throws the file system's errors; whatever the content throws. What stood there is then as it was
 */
export async function replaceKeepingMode(path: string, content: Content, otherwise?: number): Promise<void> {
  const place = await realPathOf(path);
  await replaceWith(place, content, (await modeOf(place)) ?? otherwise);
}

/** Replaces a file of a job as `replaceKeepingMode` does. @throws JobFileError */
export async function writeFileAtomic(path: string, content: string, mode?: number): Promise<void> {
  try {
    await replaceKeepingMode(path, [content], mode);
  } catch (error) {
    throw fileFailure(path, 'written', error);
  }
}

/** Writes as `replaceFile` does, and takes it back: what would fail then fails now. @throws the file system's errors */
export async function probeFile(path: string, content: string): Promise<void> {
  await withTemporary(await realPathOf(path), [content], undefined, (temporary) => rm(temporary));
}

/** Tries whether files can be made in a folder, and leaves none. @throws the file system's errors */
export async function probeFolder(path: string): Promise<void> {
  await withTemporary(join(path, 'probe'), [], undefined, (temporary) => rm(temporary));
}

async function replaceWith(place: string, content: Content, mode: number | undefined): Promise<void> {
  removeLeftovers(place);
  await withTemporary(place, content, mode, async (temporary) => {
    await moveOver(temporary, place);
  });
}

/**
 * Puts a file in the place of another, so that a reader sees the one or the other. A file that is a mount of its own
 * (bound into a container, say) cannot be replaced: its content is, and the file that was to take its place stays until
 * that is through. @throws the file system's errors
 */
export async function moveOver(file: string, place: string): Promise<void> {
  try {
    await rename(file, place);
  } catch (error) {
    if (fileErrorCode(error) !== 'EBUSY') throw error;
    await copyFile(file, place);
    const handle = await open(place, 'r+');
    try {
      await handle.sync();
    } finally {
      await handle.close();
    }
    await rm(file);
  }
  await syncFolder(place);
}

/** Removes a file, or empties one that is a mount of its own. @throws the file system's errors */
export async function removeOrEmpty(path: string): Promise<void> {
  try {
    await rm(path, { force: true });
  } catch (error) {
    if (fileErrorCode(error) !== 'EBUSY') throw error;
    await truncate(path);
  }
}

async function withTemporary(
  place: string,
  content: Content,
  mode: number | undefined,
  use: (temporary: string) => Promise<void>,
): Promise<void> {
  const temporary = temporaryPath(place);
  try {
    await writeWhole(temporary, content, mode);
    await use(temporary);
  } catch (error) {
    await rm(temporary, { force: true }).catch(() => undefined);
    throw error;
  }
}

async function writeWhole(path: string, content: Content, mode: number | undefined): Promise<void> {
  const handle = await open(path, 'wx', mode);
  try {
    // What the process's mask takes away, too.
    if (mode !== undefined) await handle.chmod(mode);
    let pending: Buffer[] = [];
    let bytes = 0;
    const flush = async (): Promise<void> => {
      await handle.appendFile(Buffer.concat(pending, bytes));
      [pending, bytes] = [[], 0];
    };
    for await (const chunk of content) {
      const piece = Buffer.from(chunk as Uint8Array);
      pending.push(piece);
      bytes += piece.length;
      if (bytes > PIECE_BYTES) await flush();
    }
    await flush();
    await handle.sync();
  } finally {
    await handle.close();
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
