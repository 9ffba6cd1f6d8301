import { statfs } from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';
import { userCacheFolder } from '../../files/userFolders.js';

/** The rest is left to everybody else. */
const USABLE_SHARE = 0.9;

/** Where runs keep repacked models and spill files unless told otherwise. */
export function defaultDiskFolder(): string {
  return join(userCacheFolder(), 'repacked');
}

/** Bytes that a run may take of the disk that a folder is on, or will be once it is made. */
export async function freeDisk(folder: string): Promise<number> {
  for (let path = resolve(folder); ; path = dirname(path)) {
    try {
      const { bavail, bsize } = await statfs(path);
      return Math.floor(bavail * bsize * USABLE_SHARE);
    } catch {
      if (path === dirname(path)) return 0;
    }
  }
}
