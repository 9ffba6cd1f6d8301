import fc from 'fast-check';
import {
  dequantiseSeconds,
  expertsTouched,
  finishSeconds,
  headSeconds,
  matmulFlopsPerSecond,
  projectSeconds,
  type ComputeSetting,
} from '../../../src/plan/model/computeSeconds.js';
import type { ModelShape } from '../../../src/plan/ModelShape.js';
import { requireKnownShape } from '../../../src/plan/knownShapes.js';
import { builtIn, CPU_MACHINE } from '../support/hardware.js';

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

describe('a file that mixes types, as Q4_K_M mixes Q4_K and Q6_K', () => {
  // Two cores of an AMD EPYC, 64 rows.
  const measured = { q8: 758e9, q4: 743e9, q4_k: 677e9, q6_k: 601e9 } as const;
  const points = Object.entries(measured).map(([weights, flopsPerSecond]) => ({
    weights: weights as keyof typeof measured,
    tokens: 64,
    flopsPerSecond,
  }));
  const llama = requireKnownShape('llama-2-7b');
  const mixed: ModelShape = { ...llama, weightType: 'Q4_K', weightMix: { Q4_K: 0.8, Q6_K: 0.2 } };
  /** Products alone: whatever else a layer does takes no time. */
  const setting = (shape: ModelShape, matmul = points): ComputeSetting => ({
    on: { ...CPU_MACHINE.cpu, matmul, rowOperationsPerSecond: 1e30, sampleLogitsPerSecond: 1e30, taskSeconds: 0 },
    shape,
    isCpu: true,
    compressWeights: 'none',
    compressCache: 'none',
  });
  const layer = (given: ComputeSetting): number => projectSeconds(given, 64) + finishSeconds(given, 64);

  test('takes what its parts take', () => {
    const all = (weightType: ModelShape['weightType']): number => layer(setting({ ...llama, weightType }));
    expect(layer(setting(mixed))).toBeCloseTo(0.8 * all('Q4_K') + 0.2 * all('Q6_K'), 12);
    expect(all('Q6_K') / all('Q4_K')).toBeCloseTo(677 / 601, 6);
    expect(all('Q5_K')).toBe(all('Q4_K'));
    expect(all('Q4_K') / all('Q4_0')).toBeCloseTo(743 / 677, 6);
    // Of types that compute alike, a mix is as one of them.
    expect(layer(setting({ ...mixed, weightMix: { Q4_K: 0.5, Q5_K: 0.5 } }))).toBeCloseTo(all('Q4_K'), 12);
  });

  test('is compressed where that takes fewer bits, and stays what it is elsewhere', () => {
    const compressed = (shape: ModelShape, compressWeights: '4bit' | '8bit'): number =>
      layer({ ...setting(shape), compressWeights });
    const [four, nested] = [compressed(llama, '4bit'), layer(setting({ ...llama, weightType: 'Q4_K' }))];
    expect(compressed(mixed, '4bit')).toBeCloseTo(0.8 * nested + 0.2 * four, 12);
    expect(compressed(mixed, '8bit')).toBe(layer(setting(mixed)));
  });

  test('is not made floats of on a GPU where compression leaves it as it is', () => {
    const gpu = { ...setting({ ...mixed, weightMix: { Q4_K: 1 } }), isCpu: false };
    const one = (compressWeights: '4bit' | 'none'): unknown =>
      dequantiseSeconds({ ...gpu, on: { ...gpu.on, matmul: points.slice(0, 2) }, compressWeights }, 64);
    expect(one('4bit')).toEqual(one('none'));
  });

  test('has a head of its own type', () => {
    const head = (headWeightType?: ModelShape['weightType']): number =>
      headSeconds(setting({ ...mixed, headWeightType }), 64);
    expect(head('Q6_K') / head()).toBeCloseTo(677 / 601, 6);
  });

  test('is as fast by a hardware file without K-quants as weights of as many bits', () => {
    const old = points.filter(({ weights }) => !weights.endsWith('_k'));
    const all = (weightType: ModelShape['weightType']): number => layer(setting({ ...llama, weightType }, old));
    expect(layer(setting(mixed, old))).toBeCloseTo(0.8 * all('Q4_0') + 0.2 * all('Q8_0'), 12);
  });

  test('whatever was measured stands in for what was not', () => {
    for (const each of points)
      for (const kind of ['f32', 'f16', 'q8', 'q4', 'q4_k', 'q6_k'] as const)
        expect(matmulFlopsPerSecond({ matmul: [each] }, kind, 64)).toBe(each.flopsPerSecond);
  });
});
