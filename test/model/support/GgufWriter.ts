import { WEIGHT_TYPES, type WeightType } from '../../../src/model/weightTypes.js';

const TYPE_IDS = {
  uint8: 0,
  int8: 1,
  uint16: 2,
  int16: 3,
  uint32: 4,
  int32: 5,
  float32: 6,
  bool: 7,
  string: 8,
  array: 9,
  uint64: 10,
  int64: 11,
  float64: 12,
} as const;
export type GgufScalarType = Exclude<keyof typeof TYPE_IDS, 'array'>;
export type GgufScalar = number | bigint | boolean | string;
export type GgufValue =
  | { readonly type: GgufScalarType; readonly value: GgufScalar }
  | { readonly type: 'array'; readonly of: GgufScalarType; readonly values: readonly GgufScalar[] }
  | { readonly type: 'arrays'; readonly values: readonly GgufValue[] };

export const scalar = (type: GgufScalarType, value: GgufScalar): GgufValue => ({ type, value });
export const uint32 = (value: number): GgufValue => scalar('uint32', value);
export const float32 = (value: number): GgufValue => scalar('float32', value);
export const string = (value: string): GgufValue => scalar('string', value);
export const array = (of: GgufScalarType, values: readonly GgufScalar[]): GgufValue => ({ type: 'array', of, values });

export interface GgufTensorInput {
  readonly name: string;
  readonly type: WeightType | number;
  /** Slowest dimension first. */
  readonly shape: readonly number[];
  /** Where the bytes go in the data section; default: after the tensor before, aligned. */
  readonly offset?: number;
  readonly data?: Uint8Array;
}

export interface GgufInput {
  readonly version?: number;
  readonly metadata: readonly (readonly [key: string, value: GgufValue])[];
  readonly tensors: readonly GgufTensorInput[];
  /** Default 32; written as general.alignment if it is another. */
  readonly alignment?: number;
}

/** A length, count, type, dimension or offset: what a mutation replaces. */
export interface GgufField {
  readonly what: string;
  readonly offset: number;
  readonly bytes: 4 | 8;
}

/** Bytes that a tensor takes in the file: those that it is given, whatever its shape says. */
function lengthOf({ type, shape, data }: GgufTensorInput): number {
  return data?.length ?? tensorBytes(type, shape);
}

/** Bytes of a tensor in whole blocks; 0 for types that Spillway does not read. */
export function tensorBytes(type: WeightType | number, shape: readonly number[]): number {
  if (typeof type === 'number') return 0;
  return (shape.reduce((product, size) => product * size, 1) / WEIGHT_TYPES[type].elements) * WEIGHT_TYPES[type].bytes;
}

/** Writes a GGUF file, well-formed as far as its input is; it ends with the last tensor's last byte. */
export function writeGguf(input: GgufInput): { bytes: Buffer; fields: GgufField[] } {
  const writer = new Writer();
  const alignment = input.alignment ?? 32;
  const metadata =
    alignment === 32 ? input.metadata : [...input.metadata, ['general.alignment', uint32(alignment)] as const];
  writer.raw(Buffer.from('GGUF'));
  writer.uint32(input.version ?? 3, 'version');
  writer.uint64(input.tensors.length, 'tensor count');
  writer.uint64(metadata.length, 'metadata count');
  for (const [key, value] of metadata) {
    writer.text(key, `length of ${key}`);
    writer.value(value, key);
  }
  let end = 0;
  const placed = input.tensors.map((tensor) => {
    const offset = tensor.offset ?? Math.ceil(end / alignment) * alignment;
    end = offset + lengthOf(tensor);
    return { ...tensor, offset };
  });
  for (const { name, type, shape, offset } of placed) {
    writer.text(name, `length of ${name}`);
    writer.uint32(shape.length, `dimensions of ${name}`);
    for (const size of [...shape].reverse()) writer.uint64(size, `a dimension of ${name}`);
    writer.uint32(typeof type === 'number' ? type : WEIGHT_TYPES[type].id, `type of ${name}`);
    writer.uint64(offset, `offset of ${name}`);
  }
  const header = writer.bytes();
  const dataOffset = Math.ceil(header.length / alignment) * alignment;
  const dataBytes = Math.max(...placed.map((tensor) => tensor.offset + lengthOf(tensor)));
  const bytes = Buffer.alloc(placed.length === 0 ? header.length : dataOffset + dataBytes);
  header.copy(bytes);
  for (const { offset, data } of placed) if (data) bytes.set(data, dataOffset + offset);
  return { bytes, fields: writer.fields };
}

class Writer {
  readonly fields: GgufField[] = [];
  readonly #parts: Buffer[] = [];
  #length = 0;

  raw(bytes: Buffer): void {
    this.#parts.push(bytes);
    this.#length += bytes.length;
  }
  bytes(): Buffer {
    return Buffer.concat(this.#parts);
  }
  uint32(value: number, what: string): void {
    this.fields.push({ what, offset: this.#length, bytes: 4 });
    this.raw(scalarBytes('uint32', value));
  }
  uint64(value: number, what: string): void {
    this.fields.push({ what, offset: this.#length, bytes: 8 });
    this.raw(scalarBytes('uint64', value));
  }
  text(value: string, what: string): void {
    const bytes = Buffer.from(value);
    this.uint64(bytes.length, what);
    this.raw(bytes);
  }
  value(value: GgufValue, what: string): void {
    this.uint32(TYPE_IDS[value.type === 'arrays' ? 'array' : value.type], `type of ${what}`);
    this.#content(value, what);
  }
  #content(value: GgufValue, what: string): void {
    if (value.type === 'array') {
      this.uint32(TYPE_IDS[value.of], `element type of ${what}`);
      this.uint64(value.values.length, `count of ${what}`);
      for (const element of value.values) this.#scalar(value.of, element, what);
    } else if (value.type === 'arrays') {
      this.uint32(TYPE_IDS.array, `element type of ${what}`);
      this.uint64(value.values.length, `count of ${what}`);
      for (const element of value.values) this.#content(element, what);
    } else {
      this.#scalar(value.type, value.value, what);
    }
  }
  #scalar(type: GgufScalarType, value: GgufScalar, what: string): void {
    if (type === 'string') this.text(String(value), `length of a string of ${what}`);
    else this.raw(scalarBytes(type, value));
  }
}

function scalarBytes(type: Exclude<GgufScalarType, 'string'>, value: GgufScalar): Buffer {
  const bytes = Buffer.alloc(8);
  switch (type) {
    case 'uint8':
      return bytes.subarray(0, bytes.writeUInt8(Number(value)));
    case 'int8':
      return bytes.subarray(0, bytes.writeInt8(Number(value)));
    case 'uint16':
      return bytes.subarray(0, bytes.writeUInt16LE(Number(value)));
    case 'int16':
      return bytes.subarray(0, bytes.writeInt16LE(Number(value)));
    case 'uint32':
      return bytes.subarray(0, bytes.writeUInt32LE(Number(value)));
    case 'int32':
      return bytes.subarray(0, bytes.writeInt32LE(Number(value)));
    case 'float32':
      return bytes.subarray(0, bytes.writeFloatLE(Number(value)));
    case 'bool':
      return bytes.subarray(0, bytes.writeUInt8(value === true ? 1 : 0));
    case 'uint64':
      return bytes.subarray(0, bytes.writeBigUInt64LE(BigInt(value)));
    case 'int64':
      return bytes.subarray(0, bytes.writeBigInt64LE(BigInt(value)));
    case 'float64':
      return bytes.subarray(0, bytes.writeDoubleLE(Number(value)));
  }
}
