import { join } from 'node:path';
import { isObject } from '../../arguments/isObject.js';
import { ModelFileError } from '../../errors/ModelFileError.js';
import type { TensorInfo } from '../ModelSource.js';
import { foundInFile } from '../../arguments/found.js';
import { Fields } from '../files/Fields.js';
import { HEADER_LIMITS } from '../files/limits.js';
import { listMissing, printable } from '../files/printable.js';
import { readJsonObject } from '../files/readJson.js';
import { type ByteTensor, readSafetensorsFile } from './readSafetensorsFile.js';

/** The tensors of a folder, and the paths that their `file` refers to. */
export interface Shards {
  readonly files: readonly string[];
  readonly tensors: readonly TensorInfo[];
  readonly bytes: readonly ByteTensor[];
}

/**
 * Reads the files that `model.safetensors.index.json` lists.
 * @param present names of the files in the folder
 * @param packed as `readSafetensorsFile` has it
 * @throws ModelFileError where files are missing (they are named), or index and files disagree
 */
export async function readShards(
  folder: string,
  indexName: string,
  present: ReadonlySet<string>,
  packed = false,
): Promise<Shards> {
  const indexPath = join(folder, indexName);
  const weightMap = await readWeightMap(indexPath);
  const shardNames = [...new Set(weightMap.values())].sort();
  checkNoneMissing(indexPath, shardNames, present);

  const files: string[] = [];
  const tensors: TensorInfo[] = [];
  const bytes: ByteTensor[] = [];
  const homes = new Map<string, string>();
  for (const [index, shardName] of shardNames.entries()) {
    const shard = await readSafetensorsFile(join(folder, shardName), index, packed);
    files.push(shard.path);
    for (const tensor of shard.tensors) tensors.push(tensor);
    for (const tensor of shard.bytes) bytes.push(tensor);
    for (const name of shard.names) {
      const home = homes.get(name);
      if (home !== undefined) {
        throw new ModelFileError(
          shard.path,
          `tensor ${printable(name)}`,
          `the name also in ${home}`,
          'every name once in all files',
        );
      }
      homes.set(name, shardName);
    }
    if (homes.size > HEADER_LIMITS.tensors) {
      throw new ModelFileError(
        indexPath,
        'tensors',
        `more than ${HEADER_LIMITS.tensors}`,
        `at most ${HEADER_LIMITS.tensors}`,
      );
    }
  }
  for (const [name, shardName] of weightMap) {
    const home = homes.get(name);
    if (home !== shardName) {
      throw new ModelFileError(
        indexPath,
        `weight_map ${printable(name)}`,
        `the file ${shardName}, which does not have that tensor`,
        home === undefined ? 'the file that has it' : home,
      );
    }
  }
  return { files, tensors, bytes };
}

async function readWeightMap(path: string): Promise<Map<string, string>> {
  const fields: Fields = new Fields(path);
  const { weight_map: entries } = await readJsonObject(path, HEADER_LIMITS.tokenizerJsonBytes);
  if (!isObject(entries) || Object.keys(entries).length === 0) {
    return fields.refuse('weight_map', foundInFile(entries), 'an object of file names by tensor');
  }
  const weightMap = new Map<string, string>();
  for (const [name, shard] of Object.entries(entries)) {
    // A plain name and nothing else: `../x.safetensors` or an absolute path would read files of someone else's choice.
    if (typeof shard !== 'string' || !/^[^/\\\0]{1,250}\.safetensors$/.test(shard)) {
      fields.refuse(
        `weight_map ${printable(name)}`,
        foundInFile(shard),
        'the name of a .safetensors file in the same folder',
      );
    }
    weightMap.set(name, shard);
  }
  return weightMap;
}

function checkNoneMissing(indexPath: string, shards: readonly string[], present: ReadonlySet<string>): void {
  const missing = shards.filter((shard) => !present.has(shard));
  if (missing.length > 0) {
    throw new ModelFileError(
      indexPath,
      'weight_map',
      `${missing.length} of ${shards.length} files missing: ${listMissing(missing)}`,
      'all files in the folder',
    );
  }
}
