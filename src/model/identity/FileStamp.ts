import { stat } from 'node:fs/promises';
import { resolve } from 'node:path';
import { ModelFileError } from '../../errors/ModelFileError.js';
import { orModelFileError } from '../files/ModelFile.js';
import { modelFiles } from '../modelFiles.js';

/**
 * The facts that the system states of a file and that another file, or the same one after a change, does not have:
 * device, inode, length, and when its contents (mtime) and whatever is known of it (ctime) were changed last. Programs
 * can set the former time, as `cp -p`, `rsync -t` and `touch` do, but not the latter.
 */
export interface FileStamp {
  readonly bytes: number;
  /** The time of the last change, in nanoseconds since 1970. */
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

/** By absolute path. */
export type ModelStamps = ReadonlyMap<string, string>;

/** The stamps of the files of the model at a path, to be taken before anything of them is read. */
export async function modelStamps(path: string): Promise<ModelStamps> {
  const stamps = await Promise.all(
    (await modelFiles(path)).map(async (file) => [resolve(file), (await stampOf(file)).text] as const),
  );
  return new Map(stamps);
}

/**
 * To be asked once everything has been read: headers, contents and hashes are of the same files then.
 * @throws ModelFileError unless all the model's files are now what they were when they were stamped, and hashed
 */
export async function checkUnchanged(
  before: ModelStamps,
  { weights, settings }: Readonly<Record<'weights' | 'settings', readonly { path: string; stamp: string }[]>>,
): Promise<void> {
  for (const { path, stamp } of [...weights, ...settings]) {
    const now = await stampOf(path);
    if (now.text === stamp && (before.get(resolve(path)) ?? stamp) === stamp) continue;
    throw new ModelFileError(
      path,
      'file',
      'a change while the model was opened',
      'a file that stays as it is; run again once it is complete',
    );
  }
}
