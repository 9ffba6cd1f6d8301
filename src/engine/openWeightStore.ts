import { createHash } from 'node:crypto';
import { mkdir, stat } from 'node:fs/promises';
import { join } from 'node:path';
import type { Addon, StoreFacts } from '../bindings/Addon.js';
import { nativeCall, nativeCallReporting } from '../bindings/nativeCall.js';
import { ModelFileError } from '../errors/ModelFileError.js';
import type { ModelSource } from '../model/ModelSource.js';

/** A model in the kernels' own layout, on disk, from where its layers can stream. */
export interface WeightStore extends StoreFacts {
  readonly path: string;
  readonly fingerprint: string;
}

/**
 * Finds the repacked file of a model in a folder, or makes it: once for a model, whatever the runs. A conversion that was killed goes on.
 *
 * @param folder is made if need be; the file keeps lying there
 * @param onProgress bytes of weights done, of all
 * @throws ModelFileError if the folder or the file cannot be written or read; what `onProgress` throws
 */
export async function openWeightStore(addon: Addon, source: ModelSource, folder: string, threads: number, onProgress: (bytes: number) => void): Promise<WeightStore> {
  const fingerprint = await fingerprintOf(source);
  const path = join(folder, `${fingerprint.slice(0, 24)}.weights`);
  await mkdir(folder, { recursive: true }).catch((error: unknown) => {
    throw new ModelFileError(folder, 'folder for repacked models', error instanceof Error ? error.message : String(error), 'a folder that can be written', { cause: error });
  });
  const inspect = (): StoreFacts | undefined => nativeCall(() => addon.inspectStore(path, fingerprint));
  let facts = inspect();
  if (!facts) {
    const { decoder, bindings, files } = source;
    await nativeCallReporting((told) => addon.repack({ decoder, bindings, files, store: path, fingerprint, threads }, told), onProgress);
    facts = inspect();
  }
  if (!facts) throw new ModelFileError(path, 'repacked model', 'another model', 'the one that was just written');
  return { ...facts, path, fingerprint };
}

/** Changes with the model's files (their size and time) and with what they are taken to mean. */
async function fingerprintOf({ decoder, bindings, files }: ModelSource): Promise<string> {
  const hash = createHash('sha256');
  hash.update(JSON.stringify({ decoder, bindings }, (_, value: unknown) => (value instanceof Float32Array ? [...value] : value)));
  for (const file of files) {
    const { size, mtimeMs } = await stat(file);
    hash.update(JSON.stringify([file, size, mtimeMs]));
  }
  return hash.digest('hex');
}
