import { ModelFileError } from '../../errors/ModelFileError.js';
import { float8Block } from '../architectures/refuseQuantised.js';
import type { Fields } from '../architectures/Fields.js';
import { printable } from '../files/printable.js';
import type { TensorInfo } from '../ModelSource.js';
import type { Float8Scales } from '../TensorBinding.js';

/**
 * How the scales of `X.weight` are called: by transformers' FP8 (DeepSeek's, Qwen's), which names the factor for
 * quantising back, and by compressed-tensors, fbgemm and modelopt. Either multiplies.
 */
const SUFFIXES = ['_scale_inv', '_scale'] as const;

/** A scale for so few columns is none that anybody makes, and would take more than what it scales. */
const LEAST_COLUMNS = 16;

/**
 * Finds, for each tensor of 8-bit floats, the one that holds its scales: one for all of it, one a row, or one a block
 * as the configuration says. Pure; nothing of it is trusted.
 * @param files the tensors' files, for messages
 * @throws ModelFileError for a tensor without scales, or with some that do not fit its shape
 */
export function findScales(
  config: Fields,
  files: readonly string[],
  tensors: readonly TensorInfo[],
): readonly TensorInfo[] {
  if (!tensors.some(({ type }) => type === 'F8_E4M3')) return tensors;
  const block = float8Block(config);
  const byName = new Map(tensors.map((tensor) => [tensor.name, tensor]));
  return tensors.map((tensor) => {
    if (tensor.type !== 'F8_E4M3') return tensor;
    const names = SUFFIXES.map((suffix) => tensor.name + suffix);
    const scale = names.map((name) => byName.get(name)).find((found) => found !== undefined);
    const refuse = (found: string, expected: string): never => {
      throw new ModelFileError(files[tensor.file] ?? '', `tensor ${printable(tensor.name)}`, found, expected);
    };
    if (scale === undefined)
      return refuse('F8_E4M3 without scales', `a tensor ${names.map((name) => printable(name)).join(' or ')}`);
    return { ...tensor, scales: scalesOf(tensor, scale, block, refuse) };
  });
}

function scalesOf(
  { shape }: TensorInfo,
  scale: TensorInfo,
  block: readonly [rows: number, columns: number] | undefined,
  refuse: (found: string, expected: string) => never,
): Float8Scales {
  const [rows = 0, columns = 0] = shape;
  if (shape.length !== 2 || rows === 0 || columns === 0)
    return refuse(`shape [${shape.slice(0, 8).join(', ')}] of F8_E4M3`, 'a matrix');
  const { type, file, offset } = scale;
  if (type !== 'F32' && type !== 'F16' && type !== 'BF16') return refuse(`scales of type ${type}`, 'F32, F16 or BF16');
  // One for all is a number or a list of one; one a row is a column or a list.
  const [down = 1, across = 1] = scale.shape;
  const grid = (blockRows: number, blockColumns: number): Float8Scales | undefined =>
    scale.shape.length <= 2 && down === Math.ceil(rows / blockRows) && across === Math.ceil(columns / blockColumns)
      ? { file, offset, type, blockRows, blockColumns }
      : undefined;
  if (block && block[1] < Math.min(LEAST_COLUMNS, columns))
    return refuse(`a scale for ${block[1]} columns`, `one for ${LEAST_COLUMNS} or more`);
  return (
    (block && grid(...block)) ??
    grid(rows, columns) ??
    grid(1, columns) ??
    refuse(
      `scales of shape [${scale.shape.slice(0, 8).join(', ')}]`,
      `one for all of [${rows}, ${columns}], one a row` + (block ? `, or one for each ${block.join(' x ')}` : ''),
    )
  );
}
