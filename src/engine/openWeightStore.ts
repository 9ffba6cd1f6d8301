import { createHash } from 'node:crypto';
import { mkdir, stat } from 'node:fs/promises';
import { join } from 'node:path';
import type { Addon, StoreFacts } from '../bindings/Addon.js';
import { nativeCall } from '../bindings/nativeCall.js';
import { stoppable } from '../bindings/stoppable.js';
import { ModelFileError } from '../errors/ModelFileError.js';
import type { ModelSource } from '../model/ModelSource.js';
import { discardStore, withStoreRemedy } from './storeRemedy.js';

/** A model in the kernels' own layout, on disk, from where its layers can stream. */
export interface WeightStore extends StoreFacts {
  readonly path: string;
  readonly fingerprint: string;
}

export interface RepackingOptions {
  /** Is made if need be; the file keeps lying there. */
  readonly folder: string;
  readonly threads: number;
  readonly signal?: AbortSignal | undefined;
  /** Gets bytes of weights done, of all. */
  readonly onProgress?: (bytes: number) => void;
}

/**
 * Finds the repacked file of a model in a folder, or makes it: once for a model, whatever the runs. A conversion that was killed or interrupted goes on, and
 * a file whose header or size shows that it is damaged is made anew.
 *
 * @throws ModelFileError if the folder or the file cannot be written or read; InterruptedError when the signal fires
 */
export async function openWeightStore(addon: Addon, source: ModelSource, options: RepackingOptions): Promise<WeightStore> {
  const { folder, threads, signal, onProgress } = options;
  const fingerprint = await fingerprintOf(source);
  const path = join(folder, `${fingerprint.slice(0, 24)}.weights`);
  await makeFolder(folder);
  let facts = inspect(addon, path, fingerprint);
  if (!facts) {
    const { decoder, bindings, files } = source;
    await stoppable(signal, onProgress, (progress) => addon.repack({ decoder, bindings, files, store: path, fingerprint, threads }, progress));
    facts = inspect(addon, path, fingerprint);
  }
  if (!facts) throw new ModelFileError(path, 'repacked model', 'another model', 'the one that was just written');
  return { ...facts, path, fingerprint };
}

/** @returns undefined where there is no store of this model, or none any more: a damaged one is removed */
function inspect(addon: Addon, path: string, fingerprint: string): StoreFacts | undefined {
  try {
    return nativeCall(() => addon.inspectStore(path, fingerprint));
  } catch (error) {
    if (error instanceof ModelFileError && discardStore(path)) return undefined;
    throw withStoreRemedy(error, path);
  }
}

async function makeFolder(folder: string): Promise<void> {
  try {
    await mkdir(folder, { recursive: true });
  } catch (error) {
    const { code = '', message } = error as NodeJS.ErrnoException;
    const found = { EEXIST: 'a file', ENOTDIR: 'a file on the way to it' }[code] ?? message;
    throw new ModelFileError(folder, 'folder for repacked models (disk)', found, 'a folder that exists or can be made, and be written to', { cause: error });
  }
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
