import { expect, test } from '@jest/globals';
import { NumberMemory } from '../../../src/engine/grid/NumberMemory.js';

test('memory is used again for as many numbers, and for half as many; not where it is too small or too large', () => {
  const memory = new NumberMemory();
  const first = memory.take(8);
  expect(first).toHaveLength(8);
  for (const length of [8, 4, 7]) {
    const again = memory.take(length);
    expect([again.length, again.buffer === first.buffer]).toEqual([length, true]);
  }
  for (const length of [3, 9]) {
    const other = memory.take(length);
    expect([other.length, other.buffer === first.buffer]).toEqual([length, false]);
  }
});
