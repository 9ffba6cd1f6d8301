import { statfs } from 'node:fs/promises';
import { dirname, resolve } from 'node:path';

/** The rest is left to everybody else. */
const SHARE = 0.9;

/** Bytes that a run may take of the disk that a folder is on, or will be once it is made. */
export async function freeDisk(folder: string): Promise<number> {
  for (let path = resolve(folder); ; path = dirname(path)) {
    try {
      const { bavail, bsize } = await statfs(path);
      return Math.floor(bavail * bsize * SHARE);
    } catch {
      if (path === dirname(path)) return 0;
    }
  }
}
