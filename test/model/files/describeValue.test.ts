import { expect, test } from '@jest/globals';
import { describeValue } from '../../../src/model/files/describeValue.js';

test('values are described briefly', () => {
  expect(describeValue('x'.repeat(1000)).length).toBeLessThan(70);
  expect(describeValue(Symbol('s'))).toBe('a symbol');
  expect(describeValue({ a: 1 })).toBe('an object');
  expect(describeValue(-0.5)).toBe('-0.5');
});
