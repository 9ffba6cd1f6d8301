import { describe, expect, test } from '@jest/globals';
import { Fields } from '../../../src/model/architectures/Fields.js';
import type { TensorInfo } from '../../../src/model/ModelSource.js';
import { findScales } from '../../../src/model/safetensors/findScales.js';

const tensor = (name: string, type: TensorInfo['type'], shape: readonly number[], file = 0): TensorInfo => ({
  name,
  type,
  shape,
  file,
  offset: 1000 * file + shape.length,
  bytes: 1,
});
const WEIGHT = tensor('q.weight', 'F8_E4M3', [100, 300]);
const find = (tensors: readonly TensorInfo[], quantisation: object = {}): readonly TensorInfo[] =>
  findScales(
    Fields.ofObject('config.json', { quantization_config: { quant_method: 'fp8', ...quantisation } }),
    ['a.safetensors', 'b.safetensors'],
    tensors,
  );
const scales = (shape: readonly number[], quantisation?: object, name = 'q.weight_scale_inv'): unknown =>
  find([WEIGHT, tensor(name, 'BF16', shape, 1)], quantisation)[0]?.scales;

describe('scales of 8-bit floats', () => {
  test('for blocks as the configuration says, cut off at the ends, in another file', () => {
    const expected = { file: 1, offset: 1002, type: 'BF16', blockRows: 64, blockColumns: 128 };
    expect(scales([2, 3], { weight_block_size: [64, 128] })).toEqual(expected);
    const weights = { strategy: 'block', block_structure: [64, 128] };
    expect(scales([2, 3], { config_groups: { group_0: { weights } } }, 'q.weight_scale')).toEqual(expected);
  });

  test.each([[[100, 1]], [[100]]])('one a row: shape %j', (shape) => {
    expect(scales(shape, {}, 'q.weight_scale')).toMatchObject({ blockRows: 1, blockColumns: 300 });
  });

  test.each([[[]], [[1]], [[1, 1]]])('one for all: shape %j', (shape) => {
    expect(scales(shape, {}, 'q.weight_scale')).toMatchObject({ blockRows: 100, blockColumns: 300 });
  });

  test('other tensors stay as they are', () => {
    const others = [tensor('norm.weight', 'BF16', [4]), tensor('k.weight', 'F16', [4, 4])];
    expect(find(others)).toBe(others);
    expect(find([...others, WEIGHT, tensor('q.weight_scale', 'F32', [1])]).slice(0, 2)).toEqual(others);
  });

  test.each([
    ['none', [], {}, 'found F8_E4M3 without scales, expected a tensor q.weight_scale_inv or q.weight_scale'],
    ['those of another', [tensor('k.weight_scale', 'F32', [1])], {}, 'without scales'],
    ['of a type', [tensor('q.weight_scale', 'Q8_0', [1])], {}, 'found scales of type Q8_0, expected F32, F16 or BF16'],
    ['8-bit floats themselves', [tensor('q.weight_scale', 'F8_E4M3', [1, 1])], {}, 'found scales of type F8_E4M3'],
    ['one a column', [tensor('q.weight_scale', 'F32', [1, 300])], {}, 'one for all of [100, 300], one a row'],
    ['of three dimensions', [tensor('q.weight_scale', 'F32', [1, 1, 1])], {}, 'found scales of shape [1, 1, 1]'],
    [
      'for other blocks',
      [tensor('q.weight_scale_inv', 'F32', [2, 2])],
      { weight_block_size: [64, 128] },
      'found scales of shape [2, 2], expected one for all of [100, 300], one a row, or one for each 64 x 128',
    ],
    [
      'for blocks too narrow',
      [tensor('q.weight_scale_inv', 'F32', [100, 100])],
      { weight_block_size: [1, 3] },
      'found a scale for 3 columns, expected one for 16 or more',
    ],
    ['for blocks of nothing', [], { weight_block_size: [0, 3] }, 'weight_block_size[0]: found 0'],
    ['for halves of rows', [], { weight_block_size: [1.5, 3] }, 'two integers'],
  ] as const)('%s: refused', (_, beside, quantisation, words) => {
    expect(() => find([WEIGHT, ...beside], quantisation)).toThrow(words);
  });

  test('of what is no matrix: refused, by its file', () => {
    const vector = tensor('norm.weight', 'F8_E4M3', [4], 1);
    expect(() => find([vector, tensor('norm.weight_scale', 'F32', [1])])).toThrow(
      'b.safetensors: tensor norm.weight: found shape [4] of F8_E4M3, expected a matrix',
    );
  });
});
