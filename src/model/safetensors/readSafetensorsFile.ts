import { isUtf8 } from 'node:buffer';
import { ModelFileError } from '../../errors/ModelFileError.js';
import type { TensorInfo } from '../ModelSource.js';
import { HeaderBudget, sortRanges } from '../files/headerChecks.js';
import { HEADER_LIMITS } from '../files/limits.js';
import { ModelFile } from '../files/ModelFile.js';
import { printable } from '../files/printable.js';
import { dtypeBits, isBuffer, SUPPORTED_DTYPES, weightTypeOfDtype } from './dtypes.js';
import { HeaderScanner } from './HeaderScanner.js';

/** The header of one safetensors file. */
export interface SafetensorsFile {
  readonly path: string;
  /** Weights, in the order of their bytes. */
  readonly tensors: readonly TensorInfo[];
  /** Tensors of bytes: buffers, or blocks and scales (`joinBlocks`). */
  readonly bytes: readonly ByteTensor[];
  /** Names of all entries, those of buffers that are no weights included. */
  readonly names: ReadonlySet<string>;
}

export type ByteTensor = Omit<TensorInfo, 'type' | 'scales' | 'blockScales' | 'packed'> & {
  /** Default: U8. */
  readonly dtype?: 'I8' | 'I32';
};

interface Entry {
  readonly name: string;
  readonly dtype: string;
  readonly shape: readonly number[];
  /** From the start of the file. */
  readonly offset: number;
  readonly bytes: number;
}

/** The memory that an entry takes, roughly. */
const ENTRY_COST = 500;

/**
 * Reads and checks the header of a safetensors file: its length, its grammar, and that the tensors' bytes fit their
 * types and shapes and cover the data without holes and overlaps, as the format asks for.
 * @param fileIndex index that the tensors give as their file
 * @param packed weights may be integers or bytes, which others will be joined with (`joinPacked`, `joinCoded`)
 * @throws ModelFileError, also for a weight of a type other than F32, F16, BF16 and F8_E4M3
 */
export function readSafetensorsFile(path: string, fileIndex = 0, packed = false): Promise<SafetensorsFile> {
  return ModelFile.use(path, async (file) => {
    const header = await readHeader(file);
    const dataOffset = 8 + header.length;
    const entries = sortRanges(
      readEntries(new HeaderScanner(path, header), dataOffset, new HeaderBudget(path, file.bytes)),
    );
    checkCoverage(file, entries, dataOffset);
    return {
      path,
      tensors: toTensors(path, entries, fileIndex, packed),
      bytes: entries
        .filter(({ dtype }) => dtype === 'U8' || isInteger(dtype))
        .map(({ name, dtype, shape, offset, bytes }) => ({
          name,
          shape,
          file: fileIndex,
          offset,
          bytes,
          ...(isInteger(dtype) && { dtype }),
        })),
      names: new Set(entries.map((entry) => entry.name)),
    };
  });
}

async function readHeader(file: ModelFile): Promise<Buffer> {
  if (file.bytes < 8)
    throw new ModelFileError(file.path, 'file', `${file.bytes} bytes`, 'at least 8, the length of the header');
  const prefix = Buffer.alloc(8);
  await file.fill(prefix, 0);
  const length = prefix.readBigUInt64LE();
  const most = Math.min(HEADER_LIMITS.safetensorsHeaderBytes, file.bytes - 8);
  if (length > most) {
    throw new ModelFileError(
      file.path,
      'header length',
      `${length} bytes`,
      `at most ${most}: the file has ${file.bytes} bytes and is truncated, corrupt or no safetensors file`,
    );
  }
  const header = Buffer.allocUnsafe(Number(length));
  await file.fill(header, 8);
  if (!isUtf8(header)) throw new ModelFileError(file.path, 'header', 'bytes that are no UTF-8', 'JSON');
  return header;
}

function readEntries(scanner: HeaderScanner, dataOffset: number, budget: HeaderBudget): Entry[] {
  const entries: Entry[] = [];
  const names = new Set<string>();
  scanner.list('{', '}', () => {
    const name = scanner.string();
    const field = `tensor ${printable(name)}`;
    if (names.has(name)) throw new ModelFileError(scanner.path, field, 'the name a second time', 'every name once');
    names.add(name);
    scanner.expect(':');
    if (name === '__metadata__') {
      skipMetadata(scanner);
      return;
    }
    budget.charge(ENTRY_COST + name.length);
    entries.push(readEntry(scanner, name, field, dataOffset));
    if (entries.length > HEADER_LIMITS.tensors) {
      throw new ModelFileError(
        scanner.path,
        'tensors',
        `more than ${HEADER_LIMITS.tensors}`,
        `at most ${HEADER_LIMITS.tensors}`,
      );
    }
  });
  scanner.end();
  return entries;
}

/** Free text of the writer; nothing in it is needed. */
function skipMetadata(scanner: HeaderScanner): void {
  scanner.list('{', '}', () => {
    scanner.string(HEADER_LIMITS.safetensorsHeaderBytes);
    scanner.expect(':');
    scanner.string(HEADER_LIMITS.safetensorsHeaderBytes);
  });
}

function readEntry(scanner: HeaderScanner, name: string, field: string, dataOffset: number): Entry {
  let dtype: string | undefined;
  let shape: number[] | undefined;
  let offsets: number[] | undefined;
  scanner.list('{', '}', () => {
    const key = scanner.string();
    scanner.expect(':');
    if (key === 'dtype' && dtype === undefined) dtype = scanner.string();
    else if (key === 'shape' && shape === undefined) shape = readIntegers(scanner, HEADER_LIMITS.dimensions, field);
    else if (key === 'data_offsets' && offsets === undefined) offsets = readIntegers(scanner, 2, field);
    else
      throw new ModelFileError(
        scanner.path,
        field,
        `the key ${printable(key)}`,
        'dtype, shape and data_offsets, once each',
      );
  });
  const [begin, end] = offsets ?? [];
  if (dtype === undefined || shape === undefined || begin === undefined || end === undefined) {
    throw new ModelFileError(
      scanner.path,
      field,
      'an entry that lacks some of its keys',
      'dtype, shape and two data_offsets',
    );
  }
  const bits = dtypeBits(dtype);
  if (bits === undefined)
    throw new ModelFileError(
      scanner.path,
      field,
      `the unknown dtype ${printable(dtype)}`,
      `one of ${SUPPORTED_DTYPES}`,
    );
  const bytes = tensorBytes(shape, bits);
  if (bytes === undefined || end - begin !== bytes) {
    throw new ModelFileError(
      scanner.path,
      field,
      `data_offsets [${begin}, ${end}], ${end - begin} bytes`,
      `${bytes ?? 'a whole number of'} bytes for shape [${shape.join(', ')}] of ${dtype}`,
    );
  }
  return { name, dtype, shape, offset: dataOffset + begin, bytes };
}

function readIntegers(scanner: HeaderScanner, most: number, field: string): number[] {
  const values: number[] = [];
  scanner.list('[', ']', () => {
    values.push(scanner.integer());
    if (values.length > most)
      throw new ModelFileError(scanner.path, field, `a list of more than ${most} numbers`, `at most ${most}`);
  });
  return values;
}

/** Undefined where there are more than 2^53 bits, or part of a byte. */
function tensorBytes(shape: readonly number[], bits: number): number | undefined {
  if (shape.includes(0)) return 0;
  let total = bits;
  for (const size of shape) {
    if (size > Number.MAX_SAFE_INTEGER / total) return undefined;
    total *= size;
  }
  return total % 8 === 0 ? total / 8 : undefined;
}

/** The format allows neither holes nor bytes of two tensors, so a file that lost or gained bytes is found out here. */
function checkCoverage(file: ModelFile, entries: readonly Entry[], dataOffset: number): void {
  let end = dataOffset;
  for (const entry of entries) {
    const field = `tensor ${printable(entry.name)}`;
    if (entry.offset !== end) {
      const what = entry.offset < end ? 'an overlap with the tensor before it' : 'a hole before it';
      throw new ModelFileError(
        file.path,
        field,
        `${what}: bytes from ${entry.offset} on`,
        `bytes from ${end} on, where the tensor before it ends`,
      );
    }
    end += entry.bytes;
    if (end > file.bytes) {
      throw new ModelFileError(
        file.path,
        field,
        `bytes ${entry.offset} to ${end}`,
        `bytes inside the file of ${file.bytes} bytes: it is truncated`,
      );
    }
  }
  if (end !== file.bytes)
    throw new ModelFileError(file.path, 'file', `${file.bytes} bytes`, `${end}, where the last tensor ends`);
}

const isInteger = (dtype: string): dtype is 'I8' | 'I32' => dtype === 'I8' || dtype === 'I32';

function toTensors(path: string, entries: readonly Entry[], file: number, packed: boolean): TensorInfo[] {
  const tensors: TensorInfo[] = [];
  for (const { name, dtype, shape, offset, bytes } of entries) {
    const type = weightTypeOfDtype(dtype);
    if (type !== undefined) tensors.push({ name, type, shape, file, offset, bytes });
    else if (!(packed && (isInteger(dtype) || dtype === 'U8')) && !isBuffer(name, dtype)) {
      throw new ModelFileError(path, `tensor ${printable(name)}`, `dtype ${dtype}`, `one of ${SUPPORTED_DTYPES}`);
    }
  }
  return tensors;
}
