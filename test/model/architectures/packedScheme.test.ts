import { describe, expect, test } from '@jest/globals';
import { Fields } from '../../../src/model/architectures/Fields.js';
import { packedScheme } from '../../../src/model/architectures/packedScheme.js';

const of = (config: object): ReturnType<typeof packedScheme> => packedScheme(Fields.ofObject('config.json', config));
const compressed = (weights: object, format = 'pack-quantized', more: object = {}): object => ({
  quant_method: 'compressed-tensors',
  format,
  config_groups: { group_0: { weights: { type: 'int', ...weights } }, ...more },
});

describe('what a configuration says of packed integers', () => {
  test('GPTQ: formats differ in the zero point, groups may be reordered', () => {
    const gptq = { quant_method: 'gptq', bits: 4, group_size: 128, sym: true };
    const scheme = { method: 'gptq', bits: 4, group: 128, symmetric: true, reordered: false, zeroAdd: 1 };
    expect(of(gptq)).toEqual(scheme);
    expect(of({ ...gptq, checkpoint_format: 'gptq_v2', desc_act: true, group_size: -1 })).toEqual({
      ...scheme,
      group: undefined,
      reordered: true,
      zeroAdd: 0,
    });
  });
  test('AWQ by both of its spellings', () => {
    const scheme = { method: 'awq', bits: 4, group: 64, symmetric: false, reordered: false, zeroAdd: 0 };
    expect(of({ quant_method: 'awq', bits: 4, group_size: 64, version: 'gemm' })).toEqual(scheme);
    expect(of({ quant_method: 'awq', w_bit: 4, q_group_size: 64, version: 'GEMM' })).toEqual(scheme);
  });
  test('compressed-tensors', () => {
    const scheme = { method: 'compressed-tensors', bits: 8, group: undefined, symmetric: true, reordered: false };
    expect(of(compressed({ num_bits: 8 }, 'int-quantized'))).toEqual({ ...scheme, zeroAdd: 0 });
    expect(of(compressed({ num_bits: 4, group_size: 128, symmetric: false, actorder: 'group' }))).toEqual({
      ...scheme,
      bits: 4,
      group: 128,
      symmetric: false,
      reordered: true,
      zeroAdd: 0,
    });
  });
  test.each([[{ quant_method: 'fp8' }], [{ quant_method: 'compressed-tensors', format: 'float-quantized' }], [{}]])(
    '%j packs none',
    (config) => {
      expect(of(config)).toBeUndefined();
    },
  );

  test.each([
    [{ quant_method: 'gptq' }, 'bits: found nothing, expected 4 or 8 bits'],
    [{ quant_method: 'gptq', bits: 3 }, 'bits: found 3, expected 4 or 8 bits'],
    [{ quant_method: 'gptq', bits: 4, group_size: 0 }, 'group_size: found 0'],
    [{ quant_method: 'gptq', bits: 4, checkpoint_format: 'marlin' }, 'checkpoint_format: found "marlin"'],
    [{ quant_method: 'gptq', bits: 4, dynamic: { '-:.*': {} } }, 'dynamic: found'],
    [{ quant_method: 'awq', bits: 8 }, 'bits: found 8, expected 4, as all of AWQ has'],
    [{ quant_method: 'awq', bits: 4, version: 'gemv' }, 'version: found "gemv", expected gemm'],
    [compressed({ num_bits: 2 }), 'num_bits: found 2'],
    [compressed({ num_bits: 4, type: 'float' }), 'type: found "float", expected int'],
    [compressed({ num_bits: 4 }, 'pack-quantized', { group_1: {} }), 'group_1: found'],
    [{ quant_method: 'compressed-tensors', format: 'pack-quantized' }, 'config_groups: found nothing'],
  ])('%j is refused', (config, words) => {
    expect(() => of(config)).toThrow(words);
  });
});
