import { foundInFile } from '../../arguments/found.js';
import { readdir } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { ModelFileError } from '../../errors/ModelFileError.js';
import { HEADER_LIMITS } from '../files/limits.js';
import { ModelFile, orModelFileError } from '../files/ModelFile.js';
import { listMissing, printable } from '../files/printable.js';
import {
  AUXILIARY_VECTOR_ELEMENTS,
  AUXILIARY_VECTORS,
  type ModelHeader,
  type ModelSource,
  type TensorInfo,
  type TokenizerSource,
} from '../ModelSource.js';
import { type GgufFile, readGgufFile } from './readGgufFile.js';
import { formatSplitName, parseSplitName } from '../modelFiles.js';

/** The content of the headers of a GGUF model. */
export interface GgufModel {
  readonly header: Extract<ModelHeader, { format: 'gguf' }>;
  readonly files: readonly string[];
  readonly tokenizer: TokenizerSource;
  readonly pooling?: ModelSource['pooling'];
  readonly prompts?: undefined;
}

/**
 * Reads the headers of a GGUF model: one file, or all files of a split one (given any of them). The first file's
 * metadata is the model's.
 * @throws ModelFileError, also where files of a split model are missing (all are named) or belong to another one
 */
export async function readGgufModel(path: string): Promise<GgufModel> {
  const given = await readGgufFile(path);
  const count = splitField(given, 'split.count') ?? 1;
  if (count <= 1) return toModel(path, [given]);

  const paths = await findShards(given, count);
  const shards: GgufFile[] = [];
  for (const [index, shardPath] of paths.entries()) {
    const shard = await readGgufFile(shardPath, index);
    checkShard(shard, index, count);
    // A later file's metadata is checked and dropped: only its tensors count.
    shards.push(index === 0 ? shard : { ...shard, metadata: new Map() });
  }
  const expected = shards[0] && splitField(shards[0], 'split.tensors.count');
  const found = shards.reduce((sum, shard) => sum + shard.tensors.length, 0);
  if (found > HEADER_LIMITS.tensors)
    throw new ModelFileError(path, 'tensors', `${found}`, `at most ${HEADER_LIMITS.tensors}`);
  if (expected !== undefined && expected !== found) {
    throw new ModelFileError(
      path,
      'metadata split.tensors.count',
      `${expected}, and ${found} tensors in the ${count} files`,
      'the same number',
    );
  }
  return toModel(path, shards);
}

async function toModel(path: string, files: readonly GgufFile[]): Promise<GgufModel> {
  const metadata = files[0]?.metadata ?? new Map<string, unknown>();
  const tensors: TensorInfo[] = [];
  const homes = new Map<string, string>();
  for (const file of files) {
    for (const tensor of file.tensors) {
      const home = homes.get(tensor.name);
      if (home !== undefined) {
        throw new ModelFileError(
          file.path,
          `tensor ${printable(tensor.name)}`,
          `the name also in ${home}`,
          'every name once in all files',
        );
      }
      homes.set(tensor.name, file.path);
      tensors.push(tensor);
    }
  }
  const paths = files.map((file) => file.path);
  const vectors = await readAuxiliaryVectors(tensors, paths);
  const pooling = poolingOf(metadata);
  return {
    header: { format: 'gguf', path, metadata, tensors, vectors },
    files: paths,
    tokenizer: tokenizerOf(metadata),
    ...(pooling && { pooling }),
  };
}

/** By llama.cpp's numbers. */
const POOLINGS = [undefined, 'mean', 'cls', 'last'] as const;

/** Reads what the metadata says of embeddings. */
function poolingOf(metadata: ReadonlyMap<string, unknown>): ModelSource['pooling'] {
  const type = metadata.get(`${String(metadata.get('general.architecture'))}.pooling_type`);
  if (type === undefined || type === 0) return undefined;
  return (typeof type === 'number' ? POOLINGS[type] : undefined) ?? { unknown: `pooling_type ${foundInFile(type)}` };
}

function tokenizerOf(metadata: ReadonlyMap<string, unknown>): TokenizerSource {
  if (!metadata.has('tokenizer.ggml.model') || !metadata.has('tokenizer.ggml.tokens')) {
    const end = metadata.get('tokenizer.ggml.eos_token_id');
    const endTokens = typeof end === 'number' && Number.isInteger(end) && end >= 0 ? [end] : [];
    return { kind: 'none', reason: 'the GGUF file has no tokenizer.ggml.model and tokenizer.ggml.tokens', endTokens };
  }
  return { kind: 'gguf', metadata: new Map([...metadata].filter(([key]) => key.startsWith('tokenizer.'))) };
}

/** A number of the split's metadata; undefined where the file has none. */
function splitField(file: GgufFile, key: string): number | undefined {
  const value = file.metadata.get(key);
  if (value === undefined) return undefined;
  if (typeof value !== 'number' || !Number.isInteger(value) || value < 0) {
    throw new ModelFileError(file.path, `metadata ${key}`, foundInFile(value), 'a whole number of at least 0');
  }
  return value;
}

/**
 * Paths of all files of the split model that `given` belongs to, in order. @throws ModelFileError that names the
 * missing ones
 */
async function findShards(given: GgufFile, count: number): Promise<string[]> {
  const folder = dirname(given.path);
  const name = parseSplitName(basename(given.path));
  if (!name || name.count !== count) {
    throw new ModelFileError(
      given.path,
      'file name',
      `a file of a model that is split into ${count} (metadata split.count)`,
      `a name that ends in -0000N-of-${String(count).padStart(5, '0')}.gguf, by which the others are found`,
    );
  }
  checkShard(given, name.number - 1, count);
  const present = new Set(await orModelFileError(folder, () => readdir(folder)));
  const names = Array.from({ length: count }, (_, index) => formatSplitName({ ...name, number: index + 1 }));
  const missing = names.filter((shard) => !present.has(shard));
  if (missing.length > 0) {
    throw new ModelFileError(
      given.path,
      'split files',
      `${missing.length} of ${count} missing: ${listMissing(missing)}`,
      `all ${count} files in one folder`,
    );
  }
  return names.map((shard) => join(folder, shard));
}

function checkShard(shard: GgufFile, index: number, count: number): void {
  const foundCount = splitField(shard, 'split.count');
  if (foundCount !== count) {
    throw new ModelFileError(
      shard.path,
      'metadata split.count',
      foundInFile(foundCount),
      `${count}, as the file's name and the other files say`,
    );
  }
  const number = splitField(shard, 'split.no');
  if (number !== index) {
    throw new ModelFileError(
      shard.path,
      'metadata split.no',
      foundInFile(number),
      `${index}, as its name counts from 1`,
    );
  }
}

/**
 * Reads the few small tensors that belong to a model's description (factors on rotary frequencies), where it has them.
 * @param files paths that the tensors' `file` refers to
 * @returns their elements by name
 */
async function readAuxiliaryVectors(
  tensors: readonly TensorInfo[],
  files: readonly string[],
): Promise<Map<string, Float32Array>> {
  const vectors = new Map<string, Float32Array>();
  for (const name of AUXILIARY_VECTORS) {
    const tensor = tensors.find((candidate) => candidate.name === name);
    const path = tensor && files[tensor.file];
    if (!tensor || path === undefined) continue;
    const elements = tensor.shape[0] ?? 0;
    if (tensor.type !== 'F32' || tensor.shape.length !== 1 || elements > AUXILIARY_VECTOR_ELEMENTS) {
      throw new ModelFileError(
        path,
        `tensor ${name}`,
        `type ${tensor.type}, shape [${tensor.shape.join(', ')}]`,
        `type F32 and one dimension of at most ${AUXILIARY_VECTOR_ELEMENTS}`,
      );
    }
    const vector = new Float32Array(elements);
    await ModelFile.use(path, (file) => file.fill(new Uint8Array(vector.buffer), tensor.offset));
    vectors.set(name, vector);
  }
  return vectors;
}
