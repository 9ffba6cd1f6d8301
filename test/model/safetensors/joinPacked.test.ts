import { describe, expect, test } from '@jest/globals';
import type { PackedScheme } from '../../../src/model/architectures/packedScheme.js';
import { joinPacked } from '../../../src/model/safetensors/joinPacked.js';
import type { TensorInfo } from '../../../src/model/ModelSource.js';
import type { ByteTensor } from '../../../src/model/safetensors/readSafetensorsFile.js';

const GPTQ: PackedScheme = { method: 'gptq', bits: 4, group: 32, symmetric: true, reordered: false, zeroAdd: 1 };
const AWQ: PackedScheme = { ...GPTQ, method: 'awq', symmetric: false, zeroAdd: 0 };
const TORCHAO: PackedScheme = { ...GPTQ, method: 'torchao', bits: 8, group: undefined, zeroAdd: 0 };
const CT: PackedScheme = { ...GPTQ, method: 'compressed-tensors', zeroAdd: 0 };

const words = (name: string, shape: readonly number[], dtype: 'I8' | 'I32' = 'I32'): ByteTensor => ({
  name,
  shape,
  dtype,
  file: 0,
  offset: 16,
  bytes: shape.reduce((all, size) => all * size, dtype === 'I8' ? 1 : 4),
});
const scales = (name: string, shape: readonly number[], type: TensorInfo['type'] = 'F16'): TensorInfo => ({
  name,
  shape,
  type,
  file: 1,
  offset: 8,
  bytes: 0,
});
const join = (scheme: PackedScheme, floats: readonly TensorInfo[], integers: readonly ByteTensor[]): TensorInfo[] =>
  joinPacked(scheme, ['a', 'b'], floats, integers);

// A matrix of 16 outputs and 64 inputs.
const OF_GPTQ = [words('m.qweight', [8, 16]), words('m.qzeros', [2, 2]), words('m.g_idx', [64])];
const OF_AWQ = [words('m.qweight', [64, 2]), words('m.qzeros', [2, 2])];

describe('tensors of integers become one of the type that holds their values', () => {
  test('GPTQ about the middle: 4 bits', () => {
    expect(join(GPTQ, [scales('m.scales', [2, 16])], OF_GPTQ)).toEqual([
      {
        name: 'm.weight',
        type: 'Q4_0',
        shape: [16, 64],
        file: 0,
        offset: 16,
        bytes: 512,
        packed: {
          order: 'inputs',
          bits: 4,
          signed: false,
          group: 32,
          tensorRows: 16,
          zero: 1,
          values: { file: 0, offset: 16 },
          scales: { file: 1, offset: 8 },
          scaleType: 'F16',
          groupsFirst: true,
          zeros: { file: 0, offset: 16 },
        },
      },
    ]);
  });
  test.each([
    ['about any number: 5 bits', { ...GPTQ, symmetric: false }, 'F16', 'Q5_0'],
    ['reordered: floats', { ...GPTQ, reordered: true }, 'F16', 'F32'],
    ['scales that are no halves: floats', GPTQ, 'F32', 'F32'],
  ] as const)('%s', (_, scheme, scaleType, type) => {
    expect(join(scheme, [scales('m.scales', [2, 16], scaleType)], OF_GPTQ)[0]?.type).toBe(type);
  });
  test('groups that are no whole blocks: floats', () => {
    const integers = [words('m.qweight', [8, 16]), words('m.qzeros', [4, 2])];
    expect(join({ ...GPTQ, group: 16 }, [scales('m.scales', [4, 16])], integers)[0]?.type).toBe('F32');
  });
  test('AWQ', () => {
    expect(join(AWQ, [scales('m.scales', [2, 16])], OF_AWQ)[0]).toMatchObject({
      type: 'Q5_0',
      shape: [16, 64],
      packed: { order: 'outputs', tensorRows: 16, zero: 0 },
    });
  });
  test('compressed-tensors in words and in bytes', () => {
    const packed = [words('m.weight_packed', [16, 8])];
    expect(join(CT, [scales('m.weight_scale', [16, 2])], packed)[0]).toMatchObject({
      type: 'Q4_0',
      shape: [16, 64],
      packed: { order: 'rows', zero: 8, groupsFirst: false },
    });
    const bytes = [words('m.weight', [16, 64], 'I8')];
    const whole: PackedScheme = { ...CT, bits: 8, group: undefined };
    expect(join(whole, [scales('m.weight_scale', [16, 1], 'BF16')], bytes)[0]).toMatchObject({
      type: 'Q8_0',
      shape: [16, 64],
      packed: { signed: true, zero: 128, group: 64 },
    });
  });
  test('torchao: groups by the scales, zero points of bytes', () => {
    const integers = [words('m._weight_qdata', [16, 64], 'I8'), words('m._weight_zero_point', [16, 2], 'I8')];
    expect(join(TORCHAO, [scales('m._weight_scale', [16, 2])], integers)[0]).toMatchObject({
      type: 'Q8_0',
      shape: [16, 64],
      packed: { order: 'rows', signed: true, group: 32, zero: 128, zeroBytes: true },
    });
  });
  test('other integers are buffers', () => {
    expect(join(GPTQ, [], [words('mask', [3])])).toEqual([]);
  });

  test.each([
    ['no scales', GPTQ, [], OF_GPTQ, 'm.qweight: found integers without scales'],
    ['scales of another shape', GPTQ, [scales('m.scales', [3, 16])], OF_GPTQ, 'm.scales: found shape [3, 16]'],
    ['no matrix', GPTQ, [scales('m.scales', [2, 16])], [words('m.qweight', [8])], 'found shape [8]'],
    [
      'zero points of another shape',
      GPTQ,
      [scales('m.scales', [2, 16])],
      [words('m.qweight', [8, 16]), words('m.qzeros', [2, 3])],
      'm.qzeros: found shape [2, 3], expected [2, 2] for zero points',
    ],
    [
      'no zero points where they differ',
      AWQ,
      [scales('m.scales', [2, 16])],
      [words('m.qweight', [64, 2])],
      'found integers without zero points',
    ],
    [
      'no groups where they are reordered',
      { ...GPTQ, reordered: true },
      [scales('m.scales', [2, 16])],
      OF_GPTQ.slice(0, 2),
      'found integers whose groups are reordered, expected a tensor m.g_idx',
    ],
    [
      "torchao's zero points of words",
      TORCHAO,
      [scales('m._weight_scale', [16, 2])],
      [words('m._weight_qdata', [16, 64], 'I8'), words('m._weight_zero_point', [16, 2])],
      'm._weight_zero_point: found zero points of I32, expected I8',
    ],
    [
      "torchao's zero points of floats",
      TORCHAO,
      [scales('m._weight_scale', [16, 2]), scales('m._weight_zero_point', [16, 2], 'BF16')],
      [words('m._weight_qdata', [16, 64], 'I8')],
      'm._weight_zero_point: found zero points of BF16, expected I8',
    ],
    [
      "factors of a layer's inputs",
      TORCHAO,
      [scales('m._weight_scale', [16, 2]), scales('m._weight_act_pre_scale', [64])],
      [words('m._weight_qdata', [16, 64], 'I8')],
      "m._weight_act_pre_scale: found factors of a layer's inputs",
    ],
    [
      'scales of 8-bit floats',
      GPTQ,
      [scales('m.scales', [2, 16], 'F8_E4M3')],
      OF_GPTQ,
      'm.scales: found scales of type F8_E4M3',
    ],
  ])('refused: %s', (_, scheme, floats, integers, message) => {
    expect(() => join(scheme, floats, integers)).toThrow(message);
  });
});
