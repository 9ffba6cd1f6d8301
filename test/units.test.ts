import { expect, test } from '@jest/globals';
import { UsageError } from '../src/errors/UsageError.js';
import { parseBytes } from '../src/units.js';

test.each([
  ['2G', 2 * 2 ** 30],
  ['2g', 2 * 2 ** 30],
  ['512M', 512 * 2 ** 20],
  ['1.5k', 1536],
  ['1T', 2 ** 40],
  ['2GiB', 2 * 2 ** 30],
  ['16GB', 16e9],
  ['7', 7],
  ['7b', 7],
])('%s', (size, bytes) => {
  expect(parseBytes(size)).toBe(bytes);
});

test.each(['', 'G', '2X', '2GG', '-1G', '0', '1 apple'])('%p is no size', (size) => {
  expect(() => parseBytes(size)).toThrow(UsageError);
});
