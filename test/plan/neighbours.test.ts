import { expect, test } from '@jest/globals';
import { neighbours } from '../../src/plan/neighbours.js';

const points = [16, 1, 64, 4].map((tokens) => ({ tokens }));
const around = (place: number): ReturnType<typeof neighbours<{ tokens: number }>> =>
  neighbours(points, ({ tokens }) => tokens, place);

test('a place has the nearest points on both sides, in whatever order they come, and a part by the logarithms', () => {
  expect(around(8)).toEqual({ low: { tokens: 4 }, high: { tokens: 16 }, part: expect.closeTo(0.5) });
  // At a point that point is the upper one.
  expect(around(16)).toEqual({ low: { tokens: 4 }, high: { tokens: 16 }, part: 1 });
});

test('at the ends one of them is missing, and where there are no points both', () => {
  expect(around(1)).toEqual({ low: undefined, high: { tokens: 1 }, part: 0 });
  expect(around(0.5)).toEqual({ low: undefined, high: { tokens: 1 }, part: 0 });
  expect(around(100)).toEqual({ low: { tokens: 64 }, high: undefined, part: 0 });
  expect(neighbours([], () => 1, 1)).toEqual({ low: undefined, high: undefined, part: 0 });
});
