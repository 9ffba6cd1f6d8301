import { dirname, join } from 'node:path';
import { isObject } from '../../arguments/isObject.js';
import { SpillwayError } from '../../errors/SpillwayError.js';
import { readJsonObject } from '../files/readJson.js';
import { replaceFile } from '../../files/atomicFile.js';
import { userCacheFolder } from '../../files/userFolders.js';
import type { HashedFile } from './hashFile.js';
import { makeFolder } from '../../files/makeFolder.js';

const FORMAT = 'spillway-identities-1';
const MOST_FILES = 2048;
const MOST_BYTES = 2 ** 20;

const STAMP = /^\d+:\d+:\d+:-?\d+:-?\d+$/;
const HASH = /^[0-9a-f]{64}$/;

/** In this process, also where the folder cannot be written. */
const seen = new Map<string, string>();

/**
 * Hashes of files by their stamps, kept in the user's cache folder (`identities.json`). What is damaged there is as
 * good as not there, what cannot be written stays with this process; of processes that add at once one wins, and the
 * other's files are hashed again some day.
 */
export class KnownHashes {
  private constructor(
    private readonly path: string,
    private readonly hashes: ReadonlyMap<string, string>,
  ) {}

  static async read(): Promise<KnownHashes> {
    const path = join(userCacheFolder(), 'identities.json');
    return new KnownHashes(path, new Map([...Object.entries(await readKept(path)), ...seen]));
  }

  /** @param stamp of a file, as text */
  of(stamp: string): string | undefined {
    return this.hashes.get(stamp);
  }

  /** Remembers hashes in this process, and for others those of files that cannot change without their stamps. */
  async add(files: readonly HashedFile[]): Promise<void> {
    for (const { stamp, hash, holds } of files) if (holds !== 'not') seen.set(stamp.text, hash);
    const hashes = files
      .filter(({ holds }) => holds === 'always')
      .map(({ stamp, hash }) => [stamp.text, hash] as const);
    if (hashes.length === 0) return;
    const newest = [...this.hashes, ...hashes].slice(-MOST_FILES);
    try {
      makeFolder(dirname(this.path));
      await replaceFile(this.path, `${JSON.stringify({ format: FORMAT, files: Object.fromEntries(newest) })}\n`);
    } catch {
      // They are found out again.
    }
  }
}

async function readKept(path: string): Promise<Readonly<Record<string, string>>> {
  try {
    const { format, files, ...others } = await readJsonObject(path, MOST_BYTES);
    return format === FORMAT && areHashes(files) && Object.keys(others).length === 0 ? files : {};
  } catch (error) {
    if (error instanceof SpillwayError) return {};
    throw error;
  }
}

/** By stamp; the newest come last. */
function areHashes(files: unknown): files is Readonly<Record<string, string>> {
  if (!isObject(files)) return false;
  return Object.entries(files).every(
    ([stamp, hash]) => STAMP.test(stamp) && typeof hash === 'string' && HASH.test(hash),
  );
}
