import { expect, test } from '@jest/globals';
import fc from 'fast-check';
import { BusyTime } from '../../../src/engine/execution/BusyTime.js';

function busy(...stretches: readonly (readonly [number, number])[]): number {
  const time = new BusyTime();
  for (const [start, end] of stretches) time.add(start, end);
  return time.seconds;
}

test('what was under way at once counts once', () => {
  expect(busy()).toBe(0);
  expect(busy([1, 3], [3, 4], [6, 7])).toBe(4);
  expect(busy([4, 10], [0, 38])).toBe(38);
  expect(busy([0, 38], [4, 10])).toBe(38);
  expect(busy([0, 1], [4, 5], [2, 3], [0.5, 4.5])).toBe(5);
});

test('in whatever order stretches come, as long as they are not too many', () => {
  const stretch = fc.tuple(fc.nat(60), fc.nat(9)).map(([start, length]): [number, number] => [start, start + length]);
  fc.assert(
    fc.property(fc.array(stretch, { maxLength: 60 }), (stretches) => {
      const seconds = new Set(
        stretches.flatMap(([start, end]) => Array.from({ length: end - start }, (_, i) => start + i)),
      );
      expect(busy(...stretches)).toBe(seconds.size);
    }),
  );
});

test('a run of many tasks keeps no more than the last', () => {
  const time = new BusyTime();
  for (let i = 0; i < 10_000; i++) time.add(2 * i, 2 * i + 1);
  expect(time.seconds).toBe(10_000);
  expect(JSON.stringify(time).length).toBeLessThan(40_000);
});

test.each([1, 200, 900])('one that lasted as long as %i others counts once', (others) => {
  const time = new BusyTime();
  for (let layer = 0; layer < 10; layer++) {
    for (let i = 0; i < others; i++) time.add(layer + i / others, layer + (i + 0.5) / others);
    time.add(layer, layer + 1);
  }
  expect(time.seconds).toBeCloseTo(10, 9);
});

test('what is later than all that is kept is never counted twice', () => {
  const time = new BusyTime();
  for (let i = 0; i < 3000; i++) time.add(2 * i, 2 * i + 1);
  time.add(0, 6000);
  expect(time.seconds).toBeLessThanOrEqual(6000);
  expect(time.seconds).toBeGreaterThan(3000);
});
