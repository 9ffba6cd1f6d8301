import { expect, test } from '@jest/globals';
import { linesOf } from '../../src/arguments/linesOf.js';

test('lines are without blanks around them, and none is empty', () => {
  expect(linesOf('  a b \r\n\n \t\n c\n')).toEqual(['a b', 'c']);
  expect(linesOf(' \n ')).toEqual([]);
});

// Whoever looks for blanks before each end of a line goes through them once for each.
test('a message of millions of blanks is gone through once', () => {
  expect(linesOf(`a${' '.repeat(2 ** 21)}b`)).toHaveLength(1);
  expect(linesOf(`a${' \n'.repeat(2 ** 20)}b`)).toEqual(['a', 'b']);
});
