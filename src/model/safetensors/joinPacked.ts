import { ModelFileError } from '../../errors/ModelFileError.js';
import type { PackedScheme } from '../architectures/packedScheme.js';
import { printable } from '../files/printable.js';
import type { TensorInfo } from '../ModelSource.js';
import type { FilePlace, PackedIntegers } from '../TensorBinding.js';
import type { ByteTensor } from './readSafetensorsFile.js';

/** The names of a matrix's tensors, after its module's name. */
interface Names {
  readonly values: string;
  readonly scales: string;
  readonly zeros: string;
  readonly index: string;
}

const MODULES: Names = { values: '.qweight', scales: '.scales', zeros: '.qzeros', index: '.g_idx' };
const WORDS: Names = {
  values: '.weight_packed',
  scales: '.weight_scale',
  zeros: '.weight_zero_point',
  index: '.weight_g_idx',
};
const BYTES: Names = { ...WORDS, values: '.weight' };
const SUBCLASSES: Names = {
  values: '._weight_qdata',
  scales: '._weight_scale',
  zeros: '._weight_zero_point',
  index: '',
};
/** Names of torchao's SmoothQuant and AWQ. */
const INPUT_FACTOR = '._weight_act_pre_scale';
const ROWS: Names = { ...BYTES, scales: '.SCB' };

const NAMES: Readonly<Record<PackedScheme['method'], readonly Names[]>> = {
  gptq: [MODULES],
  awq: [MODULES],
  'compressed-tensors': [WORDS, BYTES],
  bitsandbytes: [ROWS],
  torchao: [SUBCLASSES],
};
/** The number whose value a row's scale is, in bitsandbytes. */
const LARGEST = 127;

/**
 * Tensors of integers with their scales, zero points and groups become `X.weight` [outputs, inputs] of the type that
 * holds the same values in the fewest bits: Q4_0 where the zero point is the middle, Q5_0 (which has room for numbers
 * less their zero points) or Q8_0; F32 where scales are not halves, or groups are no whole blocks. Pure; nothing of it
 * is trusted.
 * @param files the tensors' files, for messages
 * @throws ModelFileError for integers without scales, or tensors whose shapes do not fit
 */
export function joinPacked(
  scheme: PackedScheme,
  files: readonly string[],
  tensors: readonly TensorInfo[],
  integers: readonly ByteTensor[],
): TensorInfo[] {
  const join = new Join(scheme, files, tensors, integers);
  return integers.flatMap((tensor) => {
    for (const names of NAMES[scheme.method])
      if (tensor.name.endsWith(names.values) && tensor.dtype === (isBytes(names) ? 'I8' : 'I32'))
        return [join.of(tensor, names)];
    return [];
  });
}

class Join {
  private readonly floats: ReadonlyMap<string, TensorInfo>;
  private readonly integers: ReadonlyMap<string, ByteTensor>;

  constructor(
    private readonly scheme: PackedScheme,
    private readonly files: readonly string[],
    tensors: readonly TensorInfo[],
    integers: readonly ByteTensor[],
  ) {
    this.floats = new Map(tensors.map((tensor) => [tensor.name, tensor]));
    this.integers = new Map(integers.map((tensor) => [tensor.name, tensor]));
  }

  of(values: ByteTensor, names: Names): TensorInfo {
    const { scheme } = this;
    const module = values.name.slice(0, -names.values.length);
    const asBytes = isBytes(names);
    const bits = asBytes ? 8 : scheme.bits;
    const per = 32 / bits;
    const [first = 0, second = 0] = values.shape;
    if (values.shape.length !== 2 || first === 0 || second === 0)
      this.refuse(values, shapeText(values), 'a matrix of integers');
    const order =
      asBytes || scheme.method === 'compressed-tensors' ? 'rows' : scheme.method === 'awq' ? 'outputs' : 'inputs';
    const rows = order === 'rows' ? first : order === 'inputs' ? second : second * per;
    const columns = order === 'rows' ? second * (asBytes ? 1 : per) : order === 'inputs' ? first * per : first;
    const told = names === SUBCLASSES ? this.floats.get(module + names.scales)?.shape[1] : undefined;
    const group = Math.min(told ? Math.ceil(columns / told) : (scheme.group ?? columns), columns);
    const groups = Math.ceil(columns / group);
    const groupsFirst = order !== 'rows';
    const grid = (count: number): readonly number[] => (groupsFirst ? [groups, count] : [count, groups]);

    const scales = this.floats.get(module + names.scales);
    if (scales === undefined)
      return this.refuse(values, 'integers without scales', `a tensor ${printable(module + names.scales)}`);
    const { type: scaleType } = scales;
    if (scaleType !== 'F32' && scaleType !== 'F16' && scaleType !== 'BF16')
      return this.refuse(scales, `scales of type ${scaleType}`, 'F32, F16 or BF16');
    this.checkShape(scales, names === ROWS ? [rows] : grid(rows), 'scales');
    const zeros = this.integers.get(module + names.zeros);
    if (names === SUBCLASSES) this.checkSubclass(module, zeros, grid(rows));
    else if (zeros !== undefined && asBytes)
      this.refuse(zeros, 'zero points of bytes', 'none: those of W8A8 are symmetric');
    else if (zeros !== undefined) this.checkWords(zeros, grid(rows / per), 'zero points');
    if (zeros === undefined && !scheme.symmetric)
      this.refuse(values, 'integers without zero points', `a tensor ${printable(module + names.zeros)}`);
    const index = scheme.reordered ? this.integers.get(module + names.index) : undefined;
    if (scheme.reordered && index === undefined)
      this.refuse(values, 'integers whose groups are reordered', `a tensor ${printable(module + names.index)}`);
    if (index !== undefined) this.checkWords(index, [columns], 'groups');

    const packed: PackedIntegers = {
      order,
      bits,
      signed: asBytes,
      group,
      tensorRows: rows,
      zero: zeros === undefined || names === SUBCLASSES ? 2 ** (bits - 1) : scheme.zeroAdd,
      values: place(values),
      scales: place(scales),
      scaleType,
      ...(names === ROWS && { scaleOf: LARGEST }),
      groupsFirst,
      ...(zeros && { zeros: place(zeros), ...(names === SUBCLASSES && { zeroBytes: true }) }),
      ...(index && { groupIndex: place(index) }),
    };
    const blocks =
      scaleType !== 'F32' &&
      names !== ROWS &&
      index === undefined &&
      columns % 32 === 0 &&
      (group % 32 === 0 || groups === 1);
    return {
      name: `${module}.weight`,
      type: blocks ? blockType(bits, scheme.symmetric || asBytes) : 'F32',
      shape: [rows, columns],
      file: values.file,
      offset: values.offset,
      bytes: values.bytes,
      packed,
    };
  }

  /** Nothing of a subclass may be left out that its values are multiplied by or counted from. */
  private checkSubclass(module: string, zeros: ByteTensor | undefined, shape: readonly number[]): void {
    const floats = this.floats.get(module + SUBCLASSES.zeros);
    if (floats) this.refuse(floats, `zero points of ${floats.type}`, 'I8');
    const factor = this.floats.get(module + INPUT_FACTOR);
    if (factor) this.refuse(factor, "factors of a layer's inputs", 'weights alone');
    if (zeros === undefined) return;
    if (zeros.dtype !== 'I8') this.refuse(zeros, `zero points of ${zeros.dtype ?? 'U8'}`, 'I8');
    this.checkShape(zeros, shape, 'zero points');
  }

  private checkWords(tensor: ByteTensor, shape: readonly number[], what: string): void {
    if (tensor.dtype !== 'I32') this.refuse(tensor, `${what} of ${tensor.dtype ?? 'U8'}`, 'I32');
    this.checkShape(tensor, shape, what);
  }

  private checkShape(tensor: ByteTensor | TensorInfo, shape: readonly number[], what: string): void {
    if (tensor.shape.length !== shape.length || tensor.shape.some((size, i) => size !== shape[i]))
      this.refuse(tensor, shapeText(tensor), `[${shape.join(', ')}] for ${what}`);
  }

  private refuse({ name, file }: Pick<ByteTensor, 'name' | 'file'>, found: string, expected: string): never {
    throw new ModelFileError(this.files[file] ?? '', `tensor ${printable(name)}`, found, expected);
  }
}

/** Integers less their zero points: 4 bits about the middle, 5 about any other, 8 about the middle. */
function blockType(bits: 4 | 8, symmetric: boolean): 'Q4_0' | 'Q5_0' | 'Q8_0' | 'F32' {
  if (bits === 4) return symmetric ? 'Q4_0' : 'Q5_0';
  return symmetric ? 'Q8_0' : 'F32';
}

const isBytes = ({ values }: Names): boolean => values === '.weight' || values === SUBCLASSES.values;
const place = ({ file, offset }: FilePlace): FilePlace => ({ file, offset });
const shapeText = ({ shape }: { readonly shape: readonly number[] }): string =>
  `shape [${shape.slice(0, 8).join(', ')}]`;
