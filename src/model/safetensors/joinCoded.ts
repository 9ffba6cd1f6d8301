import { ModelFileError } from '../../errors/ModelFileError.js';
import type { CodedScheme } from '../architectures/codedScheme.js';
import { printable } from '../files/printable.js';
import type { TensorInfo } from '../ModelSource.js';
import type { CodedFloats, FilePlace } from '../TensorBinding.js';
import type { QuantState } from './readQuantStates.js';
import type { ByteTensor } from './readSafetensorsFile.js';

const NVFP4_GROUP = 16;
const MXFP4_GROUP = 32;

/**
 * Tensors of 4-bit floats with their scales become `X.weight` [outputs, inputs]: MXFP4 in its bits; NF4, FP4 and NVFP4
 * as the floats that their own libraries make of them, with one rounding (`quant_state`'s dtype; BF16 of NVFP4). Pure;
 * nothing of it is trusted.
 * @param files the tensors' files, for messages
 * @param tensors those of floats
 * @param states by the name of their matrix, of bitsandbytes
 * @throws ModelFileError for codes without scales, or tensors whose shapes do not fit
 */
export function joinCoded(
  scheme: CodedScheme,
  files: readonly string[],
  tensors: readonly TensorInfo[],
  bytes: readonly ByteTensor[],
  states: ReadonlyMap<string, QuantState>,
): TensorInfo[] {
  const join = new Join(files, tensors, bytes);
  const suffix = scheme === 'bitsandbytes' || scheme === 'modelopt' ? '.weight' : '.weight_packed';
  return bytes
    .filter(({ name, dtype }) => dtype === undefined && name.endsWith(suffix))
    .map((values) => {
      const name = `${values.name.slice(0, -suffix.length)}.weight`;
      if (scheme === 'bitsandbytes') return join.blocks(values, states.get(name));
      return scheme === 'mxfp4-pack-quantized'
        ? join.exponents(name, values)
        : join.groups(name, values, scheme === 'modelopt');
    });
}

/** Tells whether a tensor is the scales of 4-bit floats. */
export function isCodedScale(scheme: CodedScheme, { name, type }: TensorInfo): boolean {
  return scheme !== 'bitsandbytes' && type === 'F8_E4M3' && name.endsWith('.weight_scale');
}

class Join {
  private readonly floats: ReadonlyMap<string, TensorInfo>;
  private readonly bytes: ReadonlyMap<string, ByteTensor>;

  constructor(
    private readonly files: readonly string[],
    tensors: readonly TensorInfo[],
    bytes: readonly ByteTensor[],
  ) {
    this.floats = new Map(tensors.map((tensor) => [tensor.name, tensor]));
    this.bytes = new Map(bytes.map((tensor) => [tensor.name, tensor]));
  }

  /** NF4 and FP4 of bitsandbytes: the numbers of the codes are in the file, and perhaps scales are bytes themselves. */
  blocks(values: ByteTensor, state: QuantState | undefined): TensorInfo {
    const { name } = values;
    if (state === undefined)
      return this.refuse(values, 'bytes without a quant_state', `a tensor ${printable(`${name}.quant_state.…`)}`);
    const { shape, group, type, nested } = state;
    const [rows, columns] = shape;
    if (columns % 2 !== 0 || values.bytes * 2 !== rows * columns)
      this.refuse(values, `${values.bytes} bytes`, `two elements a byte of [${rows}, ${columns}]`);
    const groups = Math.ceil((rows * columns) / group);
    const floats = (suffix: string, count: number): FilePlace =>
      place(this.checked(this.floats.get(name + suffix), values, name + suffix, 'F32', [count]));
    return joined(name, type, shape, values, {
      tensorRows: rows,
      highFirst: true,
      group,
      values: place(values),
      codebook: floats('.quant_map', 16),
      ...(nested
        ? {
            scales: place(this.checked(this.bytes.get(`${name}.absmax`), values, `${name}.absmax`, 'U8', [groups])),
            scaleType: 'U8',
            nested: {
              map: floats('.nested_quant_map', 256),
              scales: floats('.nested_absmax', Math.ceil(groups / nested.group)),
              ...nested,
            },
          }
        : { scales: floats('.absmax', groups), scaleType: 'F32' }),
    });
  }

  /** NVFP4: a scale of 8 bits for sixteen inputs, and one number for all of them. */
  groups(name: string, values: ByteTensor, multiplies: boolean): TensorInfo {
    const [rows, columns] = this.shapeOf(values, NVFP4_GROUP);
    const find = (suffix: string, type: string, shape: readonly number[]): FilePlace =>
      place(this.checked(this.floats.get(name + suffix), values, name + suffix, type, shape));
    return joined(name, 'BF16', [rows, columns], values, {
      tensorRows: rows,
      highFirst: false,
      group: NVFP4_GROUP,
      values: place(values),
      scales: find('_scale', 'F8_E4M3', [rows, columns / NVFP4_GROUP]),
      scaleType: 'F8_E4M3',
      global: find(multiplies ? '_scale_2' : '_global_scale', 'F32', [1]),
      globalDivides: !multiplies,
    });
  }

  /** MXFP4: a byte of exponent for thirty-two inputs. */
  exponents(name: string, values: ByteTensor): TensorInfo {
    const [rows, columns] = this.shapeOf(values, MXFP4_GROUP);
    const scale = `${name}_scale`;
    const scales = this.checked(this.bytes.get(scale), values, scale, 'U8', [rows, columns / MXFP4_GROUP]);
    const { file, offset, bytes } = values;
    return { name, type: 'MXFP4', shape: [rows, columns], file, offset, bytes, blockScales: place(scales) };
  }

  private shapeOf(values: ByteTensor, group: number): readonly [rows: number, columns: number] {
    const [rows = 0, half = 0] = values.shape;
    if (values.shape.length !== 2 || rows === 0 || half === 0 || (half * 2) % group !== 0)
      this.refuse(values, shapeText(values.shape), `a matrix of two elements a byte, in groups of ${group}`);
    return [rows, half * 2];
  }

  /** A number alone may have no dimension. */
  private checked<T extends TensorInfo | ByteTensor>(
    tensor: T | undefined,
    values: ByteTensor,
    name: string,
    type: string,
    shape: readonly number[],
  ): T {
    if (tensor === undefined) return this.refuse(values, '4-bit floats without scales', `a tensor ${printable(name)}`);
    const found = 'type' in tensor ? tensor.type : (tensor.dtype ?? 'U8');
    if (found !== type) this.refuse(tensor, `type ${found}`, type);
    const single = shape.length === 1 && shape[0] === 1 && tensor.shape.length === 0;
    if (!single && (tensor.shape.length !== shape.length || tensor.shape.some((size, i) => size !== shape[i])))
      this.refuse(tensor, shapeText(tensor.shape), `[${shape.join(', ')}]`);
    return tensor;
  }

  private refuse({ name, file }: Pick<ByteTensor, 'name' | 'file'>, found: string, expected: string): never {
    throw new ModelFileError(this.files[file] ?? '', `tensor ${printable(name)}`, found, expected);
  }
}

const joined = (
  name: string,
  type: 'F32' | 'F16' | 'BF16',
  shape: readonly number[],
  { file, offset, bytes }: ByteTensor,
  coded: CodedFloats,
): TensorInfo => ({ name, type, shape, file, offset, bytes, coded });
const place = ({ file, offset }: FilePlace): FilePlace => ({ file, offset });
const shapeText = (shape: readonly number[]): string => `shape [${shape.slice(0, 8).join(', ')}]`;
