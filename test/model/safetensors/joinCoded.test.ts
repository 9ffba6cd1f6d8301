import { describe, expect, test } from '@jest/globals';
import type { CodedScheme } from '../../../src/model/architectures/codedScheme.js';
import { joinCoded } from '../../../src/model/safetensors/joinCoded.js';
import type { QuantState } from '../../../src/model/safetensors/readQuantStates.js';
import type { TensorInfo } from '../../../src/model/ModelSource.js';
import type { ByteTensor } from '../../../src/model/safetensors/readSafetensorsFile.js';

const bytes = (name: string, shape: readonly number[]): ByteTensor => ({
  name,
  shape,
  file: 0,
  offset: 16,
  bytes: shape.reduce((all, size) => all * size, 1),
});
const floats = (name: string, shape: readonly number[], type: TensorInfo['type'] = 'F32'): TensorInfo => ({
  name,
  shape,
  type,
  file: 1,
  offset: 8,
  bytes: 0,
});
const STATE: QuantState = { shape: [16, 64], group: 64, type: 'BF16', nested: { group: 256, offset: 2 } };
const join = (
  scheme: CodedScheme,
  tensors: readonly TensorInfo[],
  codes: readonly ByteTensor[],
  state: QuantState | undefined = STATE,
): TensorInfo[] =>
  joinCoded(scheme, ['a', 'b'], tensors, codes, state ? new Map([['m.weight', state]]) : new Map<string, QuantState>());

// A matrix of 16 outputs and 64 inputs.
const NF4 = [bytes('m.weight', [512, 1]), bytes('m.weight.absmax', [16])];
const MAPS = [
  floats('m.weight.quant_map', [16]),
  floats('m.weight.nested_quant_map', [256]),
  floats('m.weight.nested_absmax', [1]),
];
const NVFP4 = [bytes('m.weight_packed', [16, 32])];
const SCALES = [floats('m.weight_scale', [16, 4], 'F8_E4M3'), floats('m.weight_global_scale', [1])];

describe('codes with their scales become a matrix', () => {
  test('NF4 with scales that are bytes: of the type that it was made of', () => {
    expect(join('bitsandbytes', MAPS, NF4)).toEqual([
      {
        name: 'm.weight',
        type: 'BF16',
        shape: [16, 64],
        file: 0,
        offset: 16,
        bytes: 512,
        coded: {
          tensorRows: 16,
          highFirst: true,
          group: 64,
          values: { file: 0, offset: 16 },
          codebook: { file: 1, offset: 8 },
          scales: { file: 0, offset: 16 },
          scaleType: 'U8',
          nested: { map: { file: 1, offset: 8 }, scales: { file: 1, offset: 8 }, group: 256, offset: 2 },
        },
      },
    ]);
  });
  test('NVFP4: divided by the number of compressed-tensors, multiplied by that of modelopt', () => {
    const expected = { type: 'BF16', shape: [16, 64], coded: { group: 16, globalDivides: true, highFirst: false } };
    expect(join('nvfp4-pack-quantized', SCALES, NVFP4)[0]).toMatchObject(expected);
    const named = [floats('m.weight_scale', [16, 4], 'F8_E4M3'), floats('m.weight_scale_2', [])];
    expect(join('modelopt', named, [bytes('m.weight', [16, 32])])[0]).toMatchObject({
      ...expected,
      coded: { ...expected.coded, globalDivides: false },
    });
  });
  test('MXFP4 stays as it is', () => {
    const scales = bytes('m.weight_scale', [16, 2]);
    expect(join('mxfp4-pack-quantized', [], [...NVFP4, scales])).toEqual([
      { ...NVFP4[0], name: 'm.weight', type: 'MXFP4', shape: [16, 64], blockScales: { file: 0, offset: 16 } },
    ]);
  });
});

describe('what does not fit is refused', () => {
  const nf4 = (replaced: readonly (TensorInfo | ByteTensor)[], state?: QuantState): (() => unknown) => {
    const names = new Set(replaced.map(({ name }) => name));
    const kept = [...MAPS, ...NF4].filter(({ name }) => !names.has(name));
    const all = [...kept, ...replaced];
    return () =>
      join(
        'bitsandbytes',
        all.filter((tensor) => 'type' in tensor),
        all.filter((tensor) => !('type' in tensor)),
        state,
      );
  };
  test.each([
    [
      'no state',
      () => joinCoded('bitsandbytes', ['a', 'b'], MAPS, NF4, new Map()),
      'found bytes without a quant_state',
    ],
    ['fewer codes', nf4([bytes('m.weight', [511, 1])]), 'found 511 bytes, expected two elements a byte of [16, 64]'],
    ['fewer scales', nf4([bytes('m.weight.absmax', [15])]), 'absmax: found shape [15], expected [16]'],
    ['scales of floats', nf4([], { shape: [16, 64], group: 64, type: 'F16' }), 'expected a tensor m.weight.absmax'],
    ['a short map', nf4([floats('m.weight.nested_quant_map', [255])]), 'found shape [255], expected [256]'],
    ['a map of halves', nf4([floats('m.weight.quant_map', [16], 'F16')]), 'found type F16, expected F32'],
    [
      'odd rows',
      nf4([bytes('m.weight', [28, 1])], { ...STATE, shape: [8, 7] }),
      'found 28 bytes, expected two elements a byte of [8, 7]',
    ],
    ['no scales', () => join('nvfp4-pack-quantized', [], NVFP4), 'expected a tensor m.weight_scale'],
    [
      'scales of another size',
      () => join('nvfp4-pack-quantized', [floats('m.weight_scale', [16, 5], 'F8_E4M3')], NVFP4),
      'found shape [16, 5], expected [16, 4]',
    ],
    [
      'two numbers of all',
      () => join('nvfp4-pack-quantized', [...SCALES.slice(0, 1), floats('m.weight_global_scale', [2])], NVFP4),
      'found shape [2], expected [1]',
    ],
    ['no groups', () => join('nvfp4-pack-quantized', SCALES, [bytes('m.weight_packed', [16, 7])]), 'in groups of 16'],
    ['nothing', () => join('modelopt', SCALES, [bytes('m.weight', [16, 0])]), 'found shape [16, 0]'],
    ['stacked', () => join('modelopt', SCALES, [bytes('m.weight', [2, 16, 32])]), 'found shape [2, 16, 32]'],
  ])('%s', (_, joining, words) => {
    expect(joining).toThrow(words);
  });
});
