import { expect, test } from '@jest/globals';
import fc from 'fast-check';
import { paretoFrontier } from '../../src/plan/paretoFrontier.js';

type Point = readonly [number, number];
const frontierOf = (points: readonly Point[]): Point[] =>
  paretoFrontier(
    points,
    ([seconds]) => seconds,
    ([, cost]) => cost,
  );

test('keeps what nothing beats, by rising seconds', () => {
  expect(
    frontierOf([
      [3, 1],
      [1, 5],
      [2, 5],
      [2, 3],
      [2, 4],
      [4, 1],
    ]),
  ).toEqual([
    [1, 5],
    [2, 3],
    [3, 1],
  ]);
  expect(frontierOf([])).toEqual([]);
});

test('of any points: every one is beaten or equalled by one that is kept, and none that is kept by another', () => {
  const point = fc.tuple(fc.integer({ min: 0, max: 9 }), fc.integer({ min: 0, max: 9 }));
  fc.assert(
    fc.property(fc.array(point), (points) => {
      const kept = frontierOf(points);
      for (const [seconds, cost] of points) expect(kept.some(([s, c]) => s <= seconds && c <= cost)).toBe(true);
      for (const one of kept)
        for (const other of kept) if (other !== one) expect(other[0] <= one[0] && other[1] <= one[1]).toBe(false);
    }),
  );
});
