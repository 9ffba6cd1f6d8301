import { describe, expect, test } from '@jest/globals';
import { compressBindings, int8Bindings } from '../../src/model/compressBindings.js';
import { WEIGHT_TYPES, type WeightType } from '../../src/model/weightTypes.js';
import { type TensorBinding } from '../../src/model/TensorBinding.js';

const matrix = (role: TensorBinding['role'], layer: number, type: WeightType, columns = 256): TensorBinding => ({
  role,
  layer,
  kind: 'matrix',
  type,
  rows: 16,
  columns,
  segments: [{ file: 0, offset: 0, rows: 16 }],
});
const compressed = (binding: TensorBinding, kind: 'none' | '8bit' | '4bit'): string | undefined =>
  compressBindings([binding], kind)[0]?.compressed;

describe('compressBindings', () => {
  test.each<[WeightType, string | undefined, string | undefined]>([
    ['F32', 'Q8_0', 'Q4_G64'],
    ['F16', 'Q8_0', 'Q4_G64'],
    ['BF16', 'Q8_0', 'Q4_G64'],
    ['Q8_0', undefined, 'Q4_G64'],
    ['Q6_K', undefined, 'Q4_G64'],
    ['Q5_1', undefined, 'Q4_G64'],
    ['Q4_1', undefined, undefined],
    ['Q4_K', undefined, undefined],
    ['Q2_K', undefined, undefined],
  ])("a layer's matrix of %s: 8bit %s, 4bit %s", (type, eight, four) => {
    expect(compressed(matrix('q.weight', 3, type), '8bit')).toBe(eight);
    expect(compressed(matrix('q.weight', 3, type), '4bit')).toBe(four);
    expect(compressed(matrix('expert.7.down.weight', 3, type), '4bit')).toBe(four);
  });

  test('embedding and head get 8 bits either way', () => {
    for (const role of ['token_embedding', 'head.weight', 'embedding_projection', 'output_projection'] as const) {
      expect(compressed(matrix(role, -1, 'F16'), '4bit')).toBe('Q8_0');
      expect(compressed(matrix(role, -1, 'F16'), '8bit')).toBe('Q8_0');
      expect(compressed(matrix(role, -1, 'Q8_0'), '4bit')).toBeUndefined();
    }
  });

  test('vectors, routers and positions keep their precision', () => {
    const kept = [
      matrix('router.weight', 0, 'F32'),
      matrix('position_embedding', -1, 'F32'),
      { ...matrix('q.bias', 0, 'F32', 1), kind: 'vector' as const },
    ];
    expect(compressBindings(kept, '4bit')).toEqual(kept);
  });

  test('what an encoder keeps beside 8 bits stays as it is there', () => {
    const kept = { ...matrix('v.weight', 0, 'F16'), notEightBits: true as const };
    expect(compressed(kept, '8bit')).toBeUndefined();
    expect(compressed(kept, '4bit')).toBe('Q4_G64');
  });

  test('rows that are no whole groups', () => {
    expect(compressed(matrix('q.weight', 0, 'F16', 96), '4bit')).toBe('Q8_0');
    expect(compressed(matrix('q.weight', 0, 'F16', 80), '4bit')).toBeUndefined();
    expect(compressed(matrix('q.weight', 0, 'F16', 80), '8bit')).toBeUndefined();
  });

  test('none changes nothing', () => {
    const bindings = Object.keys(WEIGHT_TYPES).map((type) => matrix('q.weight', 0, type as WeightType));
    expect(compressBindings(bindings, 'none')).toBe(bindings);
  });
});

describe('int8Bindings', () => {
  test.each(Object.keys(WEIGHT_TYPES) as WeightType[])('a matrix of %s, in layers and outside', (type) => {
    for (const binding of [matrix('q.weight', 3, type), matrix('head.weight', -1, type)])
      expect(int8Bindings([binding])).toEqual([{ ...binding, compressed: 'Q8_R' }]);
  });

  test('vectors, routers, positions and rows that are no whole groups keep their precision', () => {
    const kept = [
      matrix('router.weight', 0, 'F32'),
      matrix('position_embedding', -1, 'F32'),
      matrix('q.weight', 0, 'F16', 80),
      { ...matrix('q.bias', 0, 'F32', 1), kind: 'vector' as const },
    ];
    expect(int8Bindings(kept)).toEqual(kept);
  });
});
