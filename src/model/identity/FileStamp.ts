import { stat } from 'node:fs/promises';
import { orModelFileError } from '../files/ModelFile.js';

/**
 * What the system says of a file that another file, or the same one after a change, does not have: device, inode,
 * length, and when its contents (mtime) and whatever is known of it (ctime) were changed last. Programs can set the
 * former time, as `cp -p`, `rsync -t` and `touch` do, but not the latter.
 */
export interface FileStamp {
  readonly bytes: number;
  /** Of the last change, in nanoseconds since 1970. */
  readonly changed: bigint;
  /** All of it, as native/system/FileStamp.h writes it. */
  readonly text: string;
}

/** @throws ModelFileError where nothing is */
export async function stampOf(path: string): Promise<FileStamp> {
  const { dev, ino, size, mtimeNs, ctimeNs } = await orModelFileError(path, () => stat(path, { bigint: true }));
  const wrapped = (time: bigint): bigint => BigInt.asIntN(64, time);
  return {
    bytes: Number(size),
    changed: ctimeNs,
    text: [dev, ino, size, wrapped(mtimeNs), wrapped(ctimeNs)].join(':'),
  };
}
