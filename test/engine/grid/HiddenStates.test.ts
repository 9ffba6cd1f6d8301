import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { roundedToBfloat16, widenedFromBfloat16 } from '../../../src/engine/grid/HiddenStates.js';

const rounded = (...values: readonly number[]): readonly number[] => [
  ...widenedFromBfloat16(roundedToBfloat16(Float32Array.from(values))),
];

describe('bfloat16', () => {
  test('the nearest of 8 significant bits, of two as near the even one', () => {
    expect(rounded(1, -2.5, 0, 257, 259, 261, 1.0001)).toEqual([1, -2.5, 0, 256, 260, 260, 1]);
    expect(Object.is(rounded(-0)[0], -0)).toBe(true);
  });

  test('has the range of float32; what is not finite stays so', () => {
    expect(rounded(65_536, 2 ** 120, 2 ** -130)).toEqual([65_536, 2 ** 120, 2 ** -130]);
    expect(rounded(Infinity, -Infinity, NaN, 3.4e38, -3.4e38)).toEqual([Infinity, -Infinity, NaN, Infinity, -Infinity]);
    // A NaN of which all bits that tell it from infinity are in the half that goes.
    const low = new Float32Array(Uint32Array.of(0x7f80_0001, 0xff80_0001).buffer);
    expect([...widenedFromBfloat16(roundedToBfloat16(low))]).toEqual([NaN, NaN]);
  });

  test('half the bytes; each number by itself; once is enough', () => {
    fc.assert(
      fc.property(fc.float32Array({ maxLength: 40 }), (values) => {
        const bytes = roundedToBfloat16(values);
        expect(bytes).toHaveLength(2 * values.length);
        const once = widenedFromBfloat16(bytes);
        expect(roundedToBfloat16(once)).toEqual(bytes);
        values.forEach((value, at) => {
          expect(rounded(value)[0]).toBe(once[at]);
          const least = 2 ** -126;
          if (Math.abs(value) < 3.38e38 && Math.abs(value) > least)
            expect(Math.abs((once[at] ?? 0) - value)).toBeLessThanOrEqual(Math.abs(value) * 2 ** -8);
        });
      }),
    );
  });
});
