import { expect, test } from '@jest/globals';
import fc from 'fast-check';
import { highest } from '../../src/collections/highest.js';

test('is found where all hold, where the lowest alone does, and anywhere between', () => {
  fc.assert(
    fc.property(fc.integer({ min: -1000, max: 1000 }), fc.nat(1000), fc.nat(1000), (low, width, at) => {
      const [high, last] = [low + width, low + Math.min(at, width)];
      const asked: number[] = [];
      const found = highest(low, high, (value) => {
        asked.push(value);
        return value <= last;
      });
      expect(found).toBe(last);
      expect(asked.length).toBeLessThanOrEqual(Math.ceil(Math.log2(width + 1)));
      for (const value of asked) expect(value > low && value <= high).toBe(true);
    }),
  );
});
