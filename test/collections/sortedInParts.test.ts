import { expect, test } from '@jest/globals';
import fc from 'fast-check';
import { drained } from '../../src/collections/drained.js';
import { sortedInParts } from '../../src/collections/sortedInParts.js';

test('the order of toSorted, also of such as compare alike, whatever their number', () => {
  fc.assert(
    fc.property(fc.integer({ min: 0, max: 9000 }), fc.integer({ min: 1, max: 5000 }), (length, different) => {
      const values = Array.from({ length }, (_, at) => ({ key: (at * 7919) % different, at }));
      const compare = (a: { readonly key: number }, b: { readonly key: number }): number => a.key - b.key;
      expect(drained(sortedInParts(values, compare))).toEqual(values.toSorted(compare));
    }),
    { numRuns: 25 },
  );
});
