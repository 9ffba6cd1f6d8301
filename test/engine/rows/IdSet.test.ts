import { expect, test } from '@jest/globals';
import fc from 'fast-check';
import { IdSet } from '../../../src/engine/rows/IdSet.js';

test('knows every id it has seen, as a Set would', () => {
  const id = fc.oneof(fc.string({ maxLength: 2 }), fc.integer({ min: -3, max: 70_000 }), fc.maxSafeInteger(), fc.double({ noNaN: true }));
  fc.assert(
    fc.property(fc.array(id), (ids) => {
      const set = new IdSet();
      const reference = new Set<string | number>();
      for (const each of ids) {
        expect(set.add(each)).toBe(!reference.has(each));
        reference.add(each);
      }
    }),
  );
});

test('a number and the same number as text are different ids', () => {
  const set = new IdSet();
  expect([set.add(1), set.add('1'), set.add(1)]).toEqual([true, true, false]);
});
