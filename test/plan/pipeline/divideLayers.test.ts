import { expect, test } from '@jest/globals';
import fc from 'fast-check';
import { drained } from '../../../src/collections/drained.js';
import { divideLayers as divideInParts } from '../../../src/plan/pipeline/divideLayers.js';

const divideLayers = (...given: Parameters<typeof divideInParts>) => drained(divideInParts(...given));

/** The least time of the slowest stage, over all divisions. */
function least(layers: number, speeds: readonly Stage[]): number {
  const [first, ...rest] = speeds;
  if (!first) return layers === 0 ? 0 : Infinity;
  let best = Infinity;
  for (let count = 1; count <= layers; count++)
    best = Math.min(best, Math.max(secondsOf(first, count) ?? Infinity, least(layers - count, rest)));
  return best;
}

interface Stage {
  readonly seconds: number;
  readonly once: number;
  readonly most: number;
}
const secondsOf = ({ seconds, once, most }: Stage, count: number): number | undefined =>
  count > most ? undefined : once + count * seconds;

const stages = fc.array(
  fc.record({ seconds: fc.integer({ min: 1, max: 9 }), once: fc.nat(5), most: fc.integer({ min: 0, max: 12 }) }),
  { minLength: 1, maxLength: 4 },
);

test('the slowest stage takes as little as it can, whatever they do; where they do not hold all layers, none do', () => {
  fc.assert(
    fc.property(fc.integer({ min: 4, max: 14 }), stages, (layers, speeds) => {
      const counts = divideLayers(layers, speeds.length, (stage, count) => {
        const speed = speeds[stage];
        return speed && secondsOf(speed, count);
      });
      const best = least(layers, speeds);
      expect(counts === undefined).toBe(best === Infinity);
      if (!counts) return;
      expect(counts.reduce((sum, count) => sum + count, 0)).toBe(layers);
      expect(Math.min(...counts)).toBeGreaterThan(0);
      const slowest = Math.max(...speeds.map((speed, stage) => secondsOf(speed, counts[stage] ?? 0) ?? Infinity));
      // Times that differ by less than half a percent count as the same.
      expect(slowest).toBeLessThanOrEqual(best * 1.01);
    }),
  );
});

test('twice as fast, twice the layers', () => {
  expect(divideLayers(12, 2, (stage, count) => count * (stage === 0 ? 1 : 2))).toEqual([8, 4]);
});
