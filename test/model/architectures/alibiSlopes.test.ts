import { expect, test } from '@jest/globals';
import { alibiSlopes } from '../../../src/model/architectures/specs.js';

test('slopes of a power of two are one geometric series', () => {
  expect([...alibiSlopes(8)]).toEqual([1 / 2, 1 / 4, 1 / 8, 1 / 16, 1 / 32, 1 / 64, 1 / 128, 1 / 256]);
});

test('other numbers of heads add every other term of the next longer series', () => {
  const slopes = alibiSlopes(6);
  expect([...slopes.subarray(0, 4)]).toEqual([1 / 4, 1 / 16, 1 / 64, 1 / 256]);
  expect([...slopes.subarray(4)]).toEqual([1 / 2, 1 / 8]);
  expect(alibiSlopes(71).length).toBe(71);
});
