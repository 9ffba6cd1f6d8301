import { expect, test } from '@jest/globals';
import fc from 'fast-check';
import { binomialAtMost, binomialBound, leastSample, mostAtChance } from '../../src/cascade/binomial.js';

/** By the recurrence of Pascal's triangle. */
function exactly(n: number, p: number): readonly number[] {
  let row = [1];
  for (let i = 0; i < n; i++) row = [...row, 0].map((_, k) => (row[k] ?? 0) * (1 - p) + (row[k - 1] ?? 0) * p);
  return row;
}

test('sums are those of the distribution', () => {
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 60 }), fc.double({ min: 0.001, max: 0.999, noNaN: true }), (n, p) => {
      let sum = 0;
      for (const [k, probability] of exactly(n, p).entries()) {
        sum += probability;
        expect(binomialAtMost(k, n, p)).toBeCloseTo(Math.min(1, sum), 10);
      }
      expect(binomialAtMost(-1, n, p)).toBe(0);
    }),
    { numRuns: 100 },
  );
});

test('a million draws take no turn to nothing', () => {
  expect(binomialAtMost(20_000, 1_000_000, 0.02)).toBeCloseTo(0.5, 2);
});

test('the most at a chance is the last that is no likelier', () => {
  fc.assert(
    fc.property(
      fc.integer({ min: 1, max: 400 }),
      fc.double({ min: 0.005, max: 0.5, noNaN: true }),
      fc.double({ min: 0.01, max: 0.3, noNaN: true }),
      (n, p, chance) => {
        const k = mostAtChance(n, p, chance);
        expect(binomialAtMost(k, n, p)).toBeLessThanOrEqual(chance);
        expect(binomialAtMost(k + 1, n, p)).toBeGreaterThan(chance);
        expect(k >= 0).toBe(n >= leastSample(p, chance));
      },
    ),
    { numRuns: 200 },
  );
});

test('bounds are those of the literature', () => {
  // 0 of n: the rule of three, exactly; 1 of 10 at 95%: 0.3942 (Clopper and Pearson, one-sided).
  expect(binomialBound(0, 100, 0.05)).toBeCloseTo(1 - 0.05 ** 0.01, 8);
  expect(binomialBound(1, 10, 0.05)).toBeCloseTo(0.3942, 4);
  expect(binomialBound(10, 10, 0.05)).toBe(1);
  expect(leastSample(0.02, 0.05)).toBe(149);
});
