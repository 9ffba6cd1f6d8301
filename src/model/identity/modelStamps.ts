import { resolve } from 'node:path';
import { ModelFileError } from '../../errors/ModelFileError.js';
import { modelFiles } from '../modelFiles.js';
import { stampOf } from './FileStamp.js';
import type { ModelIdentity } from './identifyModel.js';

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
export async function checkUnchanged(before: ModelStamps, { weights, settings }: ModelIdentity): Promise<void> {
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
