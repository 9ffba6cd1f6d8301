import { UNREAD_TYPES, WEIGHT_TYPES, type WeightType } from '../weightTypes.js';
import { printable } from '../files/printable.js';
import type { GgufReader } from './GgufReader.js';
import { readName } from './readMetadata.js';

/** A tensor as the header lists it: `offset` counts from the start of the data section, which is not known yet. */
export interface GgufTensor {
  readonly name: string;
  readonly type: WeightType;
  /** Slowest dimension first. */
  readonly shape: readonly number[];
  readonly offset: number;
  readonly bytes: number;
}

/** The memory that a TensorInfo takes, roughly. */
const TENSOR_COST = 400;
const MAX_DIMENSIONS = 4;

const TYPE_NAMES = Object.keys(WEIGHT_TYPES) as WeightType[];
const TYPES_BY_ID: ReadonlyMap<number, WeightType> = new Map(TYPE_NAMES.map((type) => [WEIGHT_TYPES[type].id, type]));

/**
 * Reads `count` tensor descriptions. Types, shapes and sizes are checked, and that offsets are multiples of
 * `alignment`.
 */
export async function readTensorInfos(reader: GgufReader, count: number, alignment: number): Promise<GgufTensor[]> {
  const tensors: GgufTensor[] = [];
  const names = new Set<string>();
  for (let i = 0; i < count; i++) {
    reader.budget.charge(TENSOR_COST);
    const name = await readName(reader, `name of tensor ${i + 1} of ${count}`);
    const field = `tensor ${printable(name)}`;
    if (names.has(name)) reader.fail(field, 'the name a second time', 'every name once');
    names.add(name);
    tensors.push(await readTensorInfo(reader, name, field, alignment));
  }
  return tensors;
}

async function readTensorInfo(reader: GgufReader, name: string, field: string, alignment: number): Promise<GgufTensor> {
  await reader.need(4, field);
  const dimensions = reader.uint32();
  if (dimensions < 1 || dimensions > MAX_DIMENSIONS)
    reader.fail(field, `${dimensions} dimensions`, `1 to ${MAX_DIMENSIONS}`);
  await reader.need(8 * dimensions + 12, field);
  const fastestFirst: (number | bigint)[] = [];
  for (let i = 0; i < dimensions; i++) fastestFirst.push(reader.uint64());
  const typeId = reader.uint32();
  const offset = reader.uint64();

  const type = TYPES_BY_ID.get(typeId);
  if (type === undefined) {
    const unread = UNREAD_TYPES.get(typeId);
    return reader.fail(
      field,
      unread === undefined ? `the unknown type ${typeId}` : `type ${unread.name} (${typeId})`,
      `one of the supported types: ${TYPE_NAMES.join(', ')}${unread?.instead === undefined ? '' : `; use ${unread.instead}`}`,
    );
  }
  const shape = fastestFirst.map(Number).reverse();
  const bytes = tensorBytes(type, shape, reader.file.bytes);
  if (bytes === 'broken-block') {
    const { elements } = WEIGHT_TYPES[type];
    return reader.fail(
      field,
      `rows of ${fastestFirst[0]} elements of type ${type}`,
      `rows of whole blocks, multiples of ${elements} elements`,
    );
  }
  if (bytes === 'too-large') {
    return reader.fail(
      field,
      `shape [${fastestFirst.reverse().join(', ')}] of type ${type}`,
      `dimensions of at least 1 that fit into the file's ${reader.file.bytes} bytes`,
    );
  }
  if (offset > reader.file.bytes)
    reader.fail(field, `offset ${offset}`, `an offset inside the file of ${reader.file.bytes} bytes`);
  if (Number(offset) % alignment !== 0)
    reader.fail(field, `offset ${offset}`, `a multiple of the file's alignment, ${alignment}`);
  return { name, type, shape, offset: Number(offset), bytes };
}

/**
 * Bytes of a tensor (slowest dimension first), without a product that could exceed `limit` and so leave the exact
 * integers.
 */
function tensorBytes(type: WeightType, shape: readonly number[], limit: number): number | 'broken-block' | 'too-large' {
  const block = WEIGHT_TYPES[type];
  const row = shape.at(-1) ?? 0;
  // No block holds more than four elements a byte, so a longer row cannot be in the file; this keeps the products below
  // exact.
  if (row < 1 || row > 4 * limit) return 'too-large';
  if (row % block.elements !== 0) return 'broken-block';
  let bytes = (row / block.elements) * block.bytes;
  for (const rows of shape.slice(0, -1)) {
    if (rows < 1 || rows > limit / bytes) return 'too-large';
    bytes *= rows;
  }
  return bytes <= limit ? bytes : 'too-large';
}

/** Least bytes that a tensor's description takes: a name of one byte, one dimension. */
export const LEAST_TENSOR_INFO_BYTES = 8 + 1 + 4 + 8 + 4 + 8;
