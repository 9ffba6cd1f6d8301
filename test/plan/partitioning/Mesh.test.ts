import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import type { Interconnect } from '../../../src/plan/partitioning/ChipProfile.js';
import { chipCounts, chipsAlong, meshesOf } from '../../../src/plan/partitioning/Mesh.js';

const speed = { bytesPerSecond: 1e11, stepSeconds: 1e-6 };
const torus = (axes: 1 | 2 | 3, wrapsAt: number, mostChips: number): Interconnect => ({
  kind: 'torus',
  axes,
  wrapsAt,
  mostChips,
  ...speed,
});
const nodes = (chips: number | undefined, mostChips: number): Interconnect => ({
  kind: 'switch',
  mostChips,
  ...speed,
  ...(chips !== undefined && { nodes: { chips, ...speed } }),
});

describe('numbers of chips worth a try', () => {
  test.each<[string, Interconnect, number[]]>([
    ['a torus of cubes', torus(3, 4, 64), [1, 2, 4, 8, 16, 32, 64]],
    ['a torus of threes', torus(2, 3, 40), [1, 2, 4, 6, 8, 9, 12, 16, 18, 24, 32, 36, 40]],
    ['a switch', nodes(undefined, 12), [1, 2, 4, 8, 12]],
    ['nodes of eight', nodes(8, 64), [1, 2, 4, 8, 16, 32, 64]],
    ['nodes of six', nodes(6, 100), [1, 2, 3, 4, 6, 12, 24, 48, 96]],
    ['a part of a node', nodes(6, 5), [1, 2, 3, 4, 5]],
  ])('%s', (_, interconnect, expected) => {
    expect(chipCounts(interconnect)).toEqual(expected);
  });

  test('rise, are few, can be had, and reach to within a doubling of the most', () => {
    fc.assert(
      fc.property(
        fc.oneof(
          fc.tuple(fc.constantFrom(1 as const, 2 as const, 3 as const), fc.integer({ min: 1, max: 200 })).map(
            ([axes, wrapsAt]) =>
              (most: number) =>
                torus(axes, wrapsAt, most),
          ),
          fc
            .option(fc.integer({ min: 1, max: 200 }), { nil: undefined })
            .map((chips) => (most: number) => nodes(chips, most)),
        ),
        fc.integer({ min: 1, max: 4096 }),
        (of, most) => {
          const interconnect = of(most);
          const counts = chipCounts(interconnect);
          expect(counts).toEqual([...new Set(counts)].sort((a, b) => a - b));
          expect(counts.length).toBeLessThan(200);
          expect(counts[0]).toBe(1);
          expect((counts.at(-1) ?? 0) * 2).toBeGreaterThan(most);
          for (const count of counts)
            for (const mesh of meshesOf(interconnect, count).slice(0, 1)) expect(chipsAlong(mesh)).toBe(count);
        },
      ),
      { numRuns: 50 },
    );
  });
});
