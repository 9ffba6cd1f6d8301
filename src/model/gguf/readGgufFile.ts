import { foundInFile } from '../../arguments/found.js';
import type { TensorInfo } from '../ModelSource.js';
import { checkNoOverlap } from '../files/headerChecks.js';
import { HEADER_LIMITS } from '../files/limits.js';
import { ModelFile } from '../files/ModelFile.js';
import { printable } from '../files/printable.js';
import { GgufReader } from './GgufReader.js';
import { readMetadata } from './readMetadata.js';
import { LEAST_TENSOR_INFO_BYTES, readTensorInfos } from './readTensorInfos.js';
import type { GgufTensor } from './readTensorInfos.js';

/** The header of one GGUF file. */
export interface GgufFile {
  readonly path: string;
  readonly version: number;
  readonly metadata: ReadonlyMap<string, unknown>;
  readonly tensors: readonly TensorInfo[];
}

const MAGIC = 0x46554747; // "GGUF", read as a little-endian number
const DEFAULT_ALIGNMENT = 32;
const MAX_ALIGNMENT = 2 ** 20;
/** Least bytes of a key-value pair: a key of one byte, a value of one. */
const LEAST_PAIR_BYTES = 8 + 1 + 4 + 1;

/**
 * Reads and checks the header of a GGUF file (version 2 or 3, little-endian): magic, counts, names, values, types,
 * shapes, and that every tensor's bytes are aligned, inside the file and its own alone. Weights are not read.
 *
 * Source: the GGUF specification in ggml's repository, docs/gguf.md.
 * @param fileIndex index that the tensors give as their file
 * @throws ModelFileError
 */
export function readGgufFile(path: string, fileIndex = 0): Promise<GgufFile> {
  return ModelFile.use(path, async (file) => {
    const reader = new GgufReader(file);
    const version = await readVersion(reader);
    await reader.need(16, 'header');
    const tensorCount = checkCount(
      reader,
      reader.uint64(),
      'tensor count',
      LEAST_TENSOR_INFO_BYTES,
      HEADER_LIMITS.tensors,
    );
    const pairCount = checkCount(
      reader,
      reader.uint64(),
      'metadata count',
      LEAST_PAIR_BYTES,
      HEADER_LIMITS.metadataPairs,
    );
    const metadata = await readMetadata(reader, pairCount);
    const alignment = checkAlignment(reader, metadata.get('general.alignment'));
    const tensors = await readTensorInfos(reader, tensorCount, alignment);
    const dataOffset = Math.ceil(reader.position / alignment) * alignment;
    return { path, version, metadata, tensors: placeTensors(reader, tensors, dataOffset, fileIndex) };
  });
}

async function readVersion(reader: GgufReader): Promise<number> {
  await reader.need(8, 'magic');
  const magic = reader.uint32();
  if (magic !== MAGIC) {
    reader.fail(
      'magic',
      `the bytes ${magic
        .toString(16)
        .padStart(8, '0')
        .replace(/(..)(..)(..)(..)/, '$4 $3 $2 $1')}`,
      'the bytes 47 47 55 46 ("GGUF") of a GGUF file',
    );
  }
  const version = reader.uint32();
  // A small number in the other byte order has its low half empty.
  if (version !== 0 && (version & 0xffff) === 0) {
    reader.fail(
      'version',
      'a big-endian file',
      'a little-endian one (convert it with gguf-py: gguf-convert-endian FILE little)',
    );
  }
  if (version !== 2 && version !== 3) reader.fail('version', String(version), '2 or 3');
  return version;
}

function checkCount(
  reader: GgufReader,
  count: number | bigint,
  field: string,
  leastBytes: number,
  limit: number,
): number {
  const most = Math.min(limit, Math.floor(reader.remaining / leastBytes));
  if (typeof count === 'bigint' || count > most) {
    return reader.fail(field, String(count), `at most ${most}, as ${reader.remaining} bytes of the file are left`);
  }
  return count;
}

function checkAlignment(reader: GgufReader, alignment: unknown): number {
  if (alignment === undefined) return DEFAULT_ALIGNMENT;
  const valid =
    typeof alignment === 'number' &&
    alignment >= 8 &&
    alignment <= MAX_ALIGNMENT &&
    Number.isInteger(Math.log2(alignment));
  if (!valid)
    return reader.fail(
      'metadata general.alignment',
      typeof alignment === 'string' ? `the text ${printable(alignment)}` : foundInFile(alignment),
      `a power of two from 8 to ${MAX_ALIGNMENT}`,
    );
  return alignment;
}

function placeTensors(
  reader: GgufReader,
  tensors: readonly GgufTensor[],
  dataOffset: number,
  file: number,
): TensorInfo[] {
  const placed = tensors.map(({ name, type, shape, offset, bytes }): TensorInfo => {
    const start = dataOffset + offset;
    if (start + bytes > reader.file.bytes) {
      reader.fail(
        `tensor ${printable(name)}`,
        `bytes ${start} to ${start + bytes}`,
        `bytes inside the file of ${reader.file.bytes} bytes: it is truncated or corrupt`,
      );
    }
    return { name, type, shape, file, offset: start, bytes };
  });
  checkNoOverlap(reader.file.path, placed);
  return placed;
}
