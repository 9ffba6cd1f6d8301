import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { readGgufFile } from '../../../src/model/gguf/readGgufFile.js';
import { array, scalar, type GgufScalar, type GgufScalarType, type GgufValue } from '../../model/support/GgufWriter.js';
import type { FolderImage, GgufImage, Json, ModelImage, TensorImage } from './ModelImage.js';

/** Reads a whole GGUF file. Numbers get a type that holds them: to a reader in JavaScript they are all the same. */
export async function readGgufImage(path: string): Promise<ModelImage & GgufImage> {
  const { metadata, tensors } = await readGgufFile(path);
  const bytes = readFileSync(path);
  return {
    format: 'gguf',
    files: 1,
    alignment: 32,
    metadata: [...metadata].map(([key, value]) => [key, ggufValue(value)] as const),
    tensors: tensors.map(({ name, type, shape, offset, bytes: length }) => ({
      name,
      type,
      shape,
      data: bytes.subarray(offset, offset + length),
    })),
    damage: [],
  };
}

const ARRAY_TYPES: Readonly<Record<string, GgufScalarType>> = {
  Uint8Array: 'uint8',
  Int8Array: 'int8',
  Uint16Array: 'uint16',
  Int16Array: 'int16',
  Uint32Array: 'uint32',
  Int32Array: 'int32',
  Float32Array: 'float32',
  Float64Array: 'float64',
  BigUint64Array: 'uint64',
  BigInt64Array: 'int64',
};

/** A value of metadata with a type to write it as. */
export function ggufValue(value: unknown): GgufValue {
  if (typeof value === 'string') return scalar('string', value);
  if (typeof value === 'boolean') return scalar('bool', value);
  if (typeof value === 'bigint') return scalar('uint64', value);
  if (typeof value === 'number') return scalar(numberType(value), value);
  if (ArrayBuffer.isView(value))
    return array(
      ARRAY_TYPES[value.constructor.name] ?? 'float64',
      Array.from(value as unknown as ArrayLike<GgufScalar>),
    );
  const entries = value as readonly GgufScalar[];
  if (entries.some((entry) => typeof entry === 'object')) return { type: 'arrays', values: entries.map(ggufValue) };
  const first = entries[0] ?? '';
  const type =
    typeof first === 'string'
      ? 'string'
      : typeof first === 'boolean'
        ? 'bool'
        : entries.every(Number.isInteger)
          ? 'int32'
          : 'float32';
  return array(type, entries);
}

export function numberType(value: number): 'uint32' | 'int32' | 'float32' | 'float64' {
  if (Number.isInteger(value) && value >= 0 && value < 2 ** 32) return 'uint32';
  if (Number.isInteger(value) && value < 0 && value >= -(2 ** 31)) return 'int32';
  return Object.is(Math.fround(value), value) || Math.abs(value) < 1e30 ? 'float32' : 'float64';
}

/** Reads a folder of safetensors; its files are joined, a number of their own says how many there are to be. */
export function readFolderImage(folder: string): ModelImage & FolderImage {
  const names = readdirSync(folder);
  const shards = names.filter((name) => name.endsWith('.safetensors')).sort();
  return {
    format: 'folder',
    files: shards.length,
    tensors: shards.flatMap((name) => readSafetensors(readFileSync(join(folder, name)))),
    documents: { 'config.json': JSON.parse(readFileSync(join(folder, 'config.json'), 'utf8')) as Json },
    texts: [],
    header: {},
    damage: [],
  };
}

function readSafetensors(bytes: Buffer): TensorImage[] {
  const start = 8 + Number(bytes.readBigUInt64LE());
  const header = JSON.parse(bytes.toString('utf8', 8, start)) as Record<
    string,
    { dtype: string; shape: number[]; data_offsets: [number, number] }
  >;
  return Object.entries(header)
    .filter(([name]) => name !== '__metadata__')
    .map(
      ([
        name,
        {
          dtype,
          shape,
          data_offsets: [begin, end],
        },
      ]) => ({ name, type: dtype, shape, data: bytes.subarray(start + begin, start + end) }),
    );
}
