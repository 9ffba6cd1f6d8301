import { open, rename, rm, stat } from 'node:fs/promises';
import { syncFolder } from '../model/files/replaceFile.js';
import { removeLeftovers, temporaryPath } from '../model/files/temporaryFiles.js';
import { placeOf } from './place.js';

/** Written at a time. */
const PIECE_BYTES = 2 ** 20;
/** What of a file's mode is about permissions. */
const PERMISSIONS = 0o7777;

/** Who may read and write what stands there; undefined where nothing does. */
export async function modeOf(path: string): Promise<number | undefined> {
  return stat(path).then(
    ({ mode }) => mode & PERMISSIONS,
    () => undefined,
  );
}

/**
 * Puts a file in place as a whole: a reader, or whoever comes after a crash, sees the old content or the new, never a
 * part. A link stays a link; permissions stay as they are.
 * @param otherwise the permissions of a file that was not there; default: as of any new file
 * @throws the file system's errors; whatever the content throws. What stood there is then as it was
 */
export async function putInPlace(
  path: string,
  content: AsyncIterable<Uint8Array | string> | Iterable<Uint8Array | string>,
  otherwise?: number,
): Promise<void> {
  const place = await placeOf(path);
  const mode = (await modeOf(place)) ?? otherwise;
  removeLeftovers(place);
  const temporary = temporaryPath(place);
  try {
    await writeWhole(temporary, content, mode);
    await rename(temporary, place);
    await syncFolder(place);
  } catch (error) {
    await rm(temporary, { force: true }).catch(() => undefined);
    throw error;
  }
}

async function writeWhole(
  path: string,
  content: AsyncIterable<Uint8Array | string> | Iterable<Uint8Array | string>,
  mode: number | undefined,
): Promise<void> {
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
