import { readdir } from 'node:fs/promises';
import { compressBindings, type WeightCompression } from '../../model/compressBindings.js';
import { identifyModel } from '../../model/identity/identifyModel.js';
import { readModel } from '../../model/readModel.js';
import { isStoreName, repackedBytes } from '../store/openWeightStore.js';
import { defaultDiskFolder } from './diskFolder.js';
import { modelPathOf } from './readModelShape.js';

/** Which repacked file of a model is meant, and where it may lie. */
export interface RepackedModel {
  /** Folder of repacked models. Default: the one in the user's cache folder. */
  readonly disk?: string | undefined;
  /** As the engine's option. Default `none`. */
  readonly compressWeights?: WeightCompression | undefined;
  readonly signal?: AbortSignal | undefined;
  /** Gets bytes of files that have to be hashed, which takes a minute for 60 GB. */
  readonly onProgress?: ((bytes: number, totalBytes: number) => void) | undefined;
}

/**
 * Bytes that a model's repacked file takes in a folder already: room that weights which stream need no more, though a
 * profile's `memory.diskBytes` says what is free beside it. 0 for a model of which there are no files. The model's
 * files are hashed where they are not known yet, and the folder has a file of a model like it.
 *
 * @param model as for `readModelShape`
 * @throws as `readModelShape` and `identifyModel`
 */
export async function repackedModelBytes(
  model: string,
  { disk = defaultDiskFolder(), compressWeights = 'none', signal, onProgress }: RepackedModel = {},
): Promise<number> {
  const names = await readdir(disk).catch((): string[] => []);
  if (names.length === 0) return 0;
  const path = await modelPathOf(model);
  if (path === undefined) return 0;
  const read = await readModel(path);
  const source = { ...read, bindings: compressBindings(read.bindings, compressWeights) };
  // Nobody waits for hashes where there is nothing to be found by them.
  if (!names.some((name) => isStoreName(name, source))) return 0;
  return repackedBytes(disk, source, await identifyModel(source.files, { signal, onProgress }));
}
