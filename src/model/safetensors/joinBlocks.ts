import { ModelFileError } from '../../errors/ModelFileError.js';
import type { Fields } from '../architectures/Fields.js';
import { hasMxfp4 } from '../architectures/refuseQuantised.js';
import { printable } from '../files/printable.js';
import type { TensorInfo } from '../ModelSource.js';
import type { ByteTensor } from './readSafetensorsFile.js';

const BLOCKS = '_blocks';
const SCALES = '_scales';
const BLOCK_BYTES = 16;

/**
 * Tensors of MXFP4, where the configuration says that there are some: `X_blocks` [..., rows, blocks, 16], two elements
 * a byte, and `X_scales` [..., rows, blocks], an exponent a block, become `X` [..., rows, columns]. Pure; nothing of it
 * is trusted.
 * @param files the tensors' files, for messages
 * @throws ModelFileError for blocks without scales, or of another shape
 */
export function joinBlocks(config: Fields, files: readonly string[], tensors: readonly ByteTensor[]): TensorInfo[] {
  if (!hasMxfp4(config)) return [];
  const byName = new Map(tensors.map((tensor) => [tensor.name, tensor]));
  return tensors
    .filter(({ name, dtype }) => dtype === undefined && name.endsWith(BLOCKS))
    .map(({ name, shape, file, offset, bytes }): TensorInfo => {
      const refuse = (tensor: string, found: string, expected: string): never => {
        throw new ModelFileError(files[file] ?? '', `tensor ${printable(tensor)}`, found, expected);
      };
      const joined = name.slice(0, -BLOCKS.length);
      const [blocks = 0, last] = shape.slice(-2);
      if (shape.length < 3 || last !== BLOCK_BYTES || shape.includes(0))
        return refuse(name, shapeText(shape), `[..., rows, blocks, ${BLOCK_BYTES}] for blocks of MXFP4`);
      const scales = byName.get(joined + SCALES);
      if (scales === undefined) return refuse(name, 'blocks without scales', `a tensor ${printable(joined + SCALES)}`);
      const expected = shape.slice(0, -1);
      if (scales.shape.length !== expected.length || scales.shape.some((size, i) => size !== expected[i]))
        return refuse(scales.name, shapeText(scales.shape), `[${expected.join(', ')}], one for each block`);
      return {
        name: joined,
        type: 'MXFP4',
        shape: [...shape.slice(0, -2), blocks * 2 * BLOCK_BYTES],
        file,
        offset,
        bytes,
        blockScales: { file: scales.file, offset: scales.offset },
      };
    });
}

const shapeText = (shape: readonly number[]): string => `shape [${shape.slice(0, 8).join(', ')}]`;
