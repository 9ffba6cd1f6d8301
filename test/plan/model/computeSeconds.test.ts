import fc from 'fast-check';
import { expertsTouched, finishSeconds } from '../../../src/plan/model/computeSeconds.js';
import { requireKnownShape } from '../../../src/plan/knownShapes.js';
import { builtIn } from '../support/hardware.js';

describe('experts that tokens go to', () => {
  test('one token goes to its own, many to all', () => {
    expect(expertsTouched({ count: 128, perToken: 8 }, 1)).toBeCloseTo(8, 9);
    expect(expertsTouched({ count: 8, perToken: 8 }, 1)).toBe(8);
    expect(expertsTouched({ count: 128, perToken: 8 }, 256)).toBeCloseTo(128, 3);
  });

  test('between those of one token and all of them, and as many as drawing them gives', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 64 }).chain((count) =>
          fc.record({
            count: fc.constant(count),
            perToken: fc.integer({ min: 1, max: count }),
            tokens: fc.integer({ min: 1, max: 40 }),
            seed: fc.integer({ min: 1, max: 2 ** 31 - 2 }),
          }),
        ),
        ({ count, perToken, tokens, seed }) => {
          const expected = expertsTouched({ count, perToken }, tokens);
          expect(expected).toBeGreaterThanOrEqual(perToken - 1e-9);
          expect(expected).toBeLessThanOrEqual(count + 1e-9);
          let state = seed;
          const random = (below: number): number => (state = (state * 48271) % 2147483647) % below;
          const trials = 400;
          let touched = 0;
          for (let trial = 0; trial < trials; trial++) {
            const seen = new Set<number>();
            for (let token = 0; token < tokens; token++) {
              const experts = Array.from({ length: count }, (_, expert) => expert);
              for (let nth = 0; nth < perToken; nth++) seen.add(experts.splice(random(experts.length), 1)[0] ?? -1);
            }
            touched += seen.size;
          }
          expect(Math.abs(touched / trials - expected)).toBeLessThan(0.05 * count + 0.1);
        },
      ),
      { numRuns: 40 },
    );
  });
});

test('each expert that is touched costs what starting it does, whatever it computes', () => {
  const { cpu } = builtIn('flexgen-t4');
  const shape = requireKnownShape('qwen3-30b-a3b');
  const seconds = (taskSeconds: number, isCpu: boolean, tokens: number): number =>
    finishSeconds(
      { on: { ...cpu, taskSeconds }, shape, isCpu, compressWeights: 'none', compressCache: 'none' },
      tokens,
    );
  for (const tokens of [1, 64, 4096]) {
    const touched = expertsTouched({ count: 128, perToken: 8 }, tokens);
    expect(seconds(1, true, tokens) - seconds(0, true, tokens)).toBeCloseTo(2 * touched, 6);
    expect(seconds(1, false, tokens) - seconds(0, false, tokens)).toBeCloseTo((8 / 6) * touched, 6);
  }
});
