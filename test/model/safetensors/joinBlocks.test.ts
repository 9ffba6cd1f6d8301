import { describe, expect, test } from '@jest/globals';
import { ModelFileError } from '../../../src/errors/ModelFileError.js';
import { Fields } from '../../../src/model/architectures/Fields.js';
import type { TensorInfo } from '../../../src/model/ModelSource.js';
import { joinBlocks } from '../../../src/model/safetensors/joinBlocks.js';
import type { ByteTensor } from '../../../src/model/safetensors/readSafetensorsFile.js';

const tensor = (name: string, shape: readonly number[], file = 0): ByteTensor => ({
  name,
  shape,
  file,
  offset: 1000 * file + shape.length,
  bytes: shape.reduce((product, size) => product * size, 1),
});
const join = (tensors: readonly ByteTensor[], method = 'mxfp4'): readonly TensorInfo[] =>
  joinBlocks(
    Fields.ofObject('config.json', { quantization_config: { quant_method: method } }),
    ['a.safetensors', 'b.safetensors'],
    tensors,
  );
const BLOCKS = tensor('experts.up_blocks', [3, 10, 2, 16]);

describe('blocks and scales of MXFP4', () => {
  test('become one tensor, wherever its scales are', () => {
    const joined = {
      name: 'experts.up',
      type: 'MXFP4',
      shape: [3, 10, 64],
      file: 0,
      offset: 4,
      bytes: 960,
      blockScales: { file: 1, offset: 1003 },
    };
    expect(join([BLOCKS, tensor('experts.up_scales', [3, 10, 2], 1)])).toEqual([joined]);
  });

  test('other tensors of bytes are buffers, and all are without the configuration', () => {
    expect(join([tensor('mask', [3]), tensor('k_scales', [3])])).toEqual([]);
    expect(join([BLOCKS, tensor('experts.up_scales', [3, 10, 2])], 'fp8')).toEqual([]);
  });

  test.each([
    ['without scales', [BLOCKS], 'tensor experts.up_blocks: found blocks without scales, expected a tensor'],
    [
      'with scales of another shape',
      [BLOCKS, tensor('experts.up_scales', [3, 10, 3])],
      'tensor experts.up_scales: found shape [3, 10, 3], expected [3, 10, 2]',
    ],
    [
      'with scales of fewer dimensions',
      [BLOCKS, tensor('experts.up_scales', [30, 2])],
      'found shape [30, 2], expected [3, 10, 2]',
    ],
    [
      'of another length',
      [tensor('x_blocks', [3, 10, 2, 8]), tensor('x_scales', [3, 10, 2])],
      'found shape [3, 10, 2, 8], expected [..., rows, blocks, 16]',
    ],
    ['that are none', [tensor('x_blocks', [0, 2, 16]), tensor('x_scales', [0, 2])], 'found shape [0, 2, 16]'],
    ['that are a list', [tensor('x_blocks', [2, 16])], 'found shape [2, 16], expected'],
  ])('blocks %s are refused', (_, tensors, words) => {
    expect(() => join(tensors)).toThrow(ModelFileError);
    expect(() => join(tensors)).toThrow(words);
  });
});
