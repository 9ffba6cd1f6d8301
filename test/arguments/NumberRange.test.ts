import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { isWithin, rangeWords, wholeRange, type NumberRange } from '../../src/arguments/NumberRange.js';
import { statedRange } from '../support/statedRange.js';

const ends = fc.constantFrom(-3, 0, 0.5, 1, 2, 4096, 2 ** 31 - 1, 1e6);
const ranges: fc.Arbitrary<NumberRange> = fc
  .record({ least: ends, above: fc.boolean(), most: fc.option(ends, { nil: undefined }), whole: fc.boolean() })
  .map(({ most, ...range }) => ({
    ...range,
    ...(most !== undefined && { most: Math.max(range.least, most) }),
  }));
const numbers = fc.oneof(
  fc.double(),
  fc.integer(),
  ends,
  fc.constantFrom(NaN, Infinity, -Infinity, 2 ** 53, -(2 ** 53), Number.MAX_VALUE),
);

describe('a range', () => {
  test('in words names an end that a refused number is beyond, and no refused number is within what is said', () => {
    fc.assert(
      fc.property(ranges, numbers, (range, value) => {
        if (!isWithin(value, range)) expect(statedRange(rangeWords(range, value)).holds(value)).toBe(false);
        else expect(statedRange(rangeWords(range, value)).holds(value)).toBe(true);
      }),
    );
  });

  test('takes nothing but numbers', () => {
    for (const value of ['1', null, undefined, 1n, [1], new Number(1)])
      expect(isWithin(value, wholeRange(0))).toBe(false);
  });

  test.each<[NumberRange, unknown, string]>([
    [{ least: 0, most: 1e6 }, 1e30, 'a number from 0 to 1000000'],
    [{ least: 0, above: true, most: 1 }, 2, 'a number above 0 and at most 1'],
    [wholeRange(1), 0, 'a whole number of at least 1'],
    [wholeRange(1), 2 ** 60, 'a whole number from 1 to 9007199254740991'],
    [{ least: 0 }, Infinity, 'a finite number of at least 0'],
    [{ least: 0 }, 'x', 'a number of at least 0'],
  ])('%j for %p is %s', (range, value, words) => {
    expect(rangeWords(range, value)).toBe(words);
  });
});
