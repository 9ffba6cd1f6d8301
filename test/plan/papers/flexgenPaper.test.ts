import { describe, expect, test } from '@jest/globals';
import { requireKnownShape } from '../../../src/plan/knownShapes.js';
import { predict } from '../../../src/plan/predict.js';
import { choosePolicy } from '../../../src/plan/search/choosePolicy.js';
import { builtIn, flexgenPolicy } from '../support/hardware.js';

const T4 = builtIn('flexgen-t4');
const of = (costModel: 'flexgen' | 'flexgen-paper', batchSize: number, batches: number, percent: readonly number[]) =>
  predict(
    {
      hardware: T4,
      shape: requireKnownShape('opt-30b'),
      workload: { promptTokens: 512, newTokens: 32 },
      costModel,
    },
    flexgenPolicy(batchSize, batches, percent),
  );

describe("FlexGen's cost model as its paper prints it (appendix A.3)", () => {
  test('its published policy of 30B: the slowest queue, where the shipped code adds queues up', () => {
    const percent = [20, 80, 0, 100, 0, 100];
    const { flexgen } = T4;
    if (!flexgen) throw new Error('no constants');
    // The appendix by hand: s 512, n 32, l 48, h1 7168, h2 28672; wc 0.8, cc 1, hc 1; 144 rows.
    const [s, n, l, h1, h2, bls] = [512, 32, 48, 7168, 28672, 144];
    const weights = 8 * h1 * h1 + 4 * h1 * h2;
    const products = (rate: number): number => (bls * weights) / rate;
    const prefill = Math.max(
      (0.8 * weights + 2 * s * h1 * bls) / flexgen.ctogBytesPerSecond,
      (4 * (s + 1) * h1 * bls) / flexgen.gtocCacheBytesPerSecond +
        (2 * s * h1 * bls) / flexgen.gtocHiddenBytesPerSecond,
      s * products(flexgen.mmPrefillFlopsPerSecond) + (4 * bls * s * s * h1) / flexgen.bmmPrefillFlopsPerSecond,
    );
    const decode = Math.max(
      (0.8 * weights + 2 * h1 * bls) / flexgen.ctogBytesPerSecond,
      (2 * h1 * bls) / flexgen.gtocHiddenBytesPerSecond,
      products(flexgen.mmDecodeFlopsPerSecond) + (4 * bls * (s + n / 2) * h1) / flexgen.cpuFlopsPerSecond,
    );
    const tokensPerSecond = (bls * n) / (prefill * l + decode * (n - 1) * l);

    expect(of('flexgen-paper', 48, 3, percent).tokensPerSecond).toBeCloseTo(tokensPerSecond, 6);
    expect(tokensPerSecond).toBeCloseTo(8.6, 2);
    expect(of('flexgen', 48, 3, percent).tokensPerSecond).toBeCloseTo(7.14, 2);
  });

  test('peaks have the largest of what works, not the sum: a published policy fits that the shipped model refuses', () => {
    const percent = [20, 80, 0, 100, 0, 100];
    const [shipped, printed] = [of('flexgen', 48, 3, percent), of('flexgen-paper', 48, 3, percent)];
    const [s, l, h1, h2, size] = [512, 48, 7168, 28672, 48];
    const weights = 8 * h1 * h1 + 4 * h1 * h2;
    const working = size * 2 * s * (h1 + h2);
    expect(printed.memoryBytes.gpu).toBeCloseTo(
      0.2 * weights * l + 2 * 0.8 * weights + 2 * s * h1 * size + working,
      -1,
    );
    expect(shipped.memoryBytes.gpu).toBeGreaterThan(16e9);
    expect(printed.memoryBytes.gpu).toBeLessThan(16e9);
    expect(printed.memoryBytes.cpu).toBe(shipped.memoryBytes.cpu);
  });

  test('a weight on disk takes the disk as long as it says', () => {
    const half = of('flexgen-paper', 8, 1, [0, 50, 0, 100, 0, 100]);
    const weights = 12 * 7168 * 7168 * 2;
    expect(half.queueSeconds['disk-read']).toBeCloseTo(
      (48 * 32 * 0.5 * weights) / (T4.flexgen?.dtocBytesPerSecond ?? NaN),
      3,
    );
  });

  test('a search by it promises more than one by the shipped model, and fits', () => {
    const [printed, shipped] = (['flexgen-paper', 'flexgen'] as const).map(
      (costModel) =>
        choosePolicy({
          hardware: T4,
          shape: requireKnownShape('opt-30b'),
          workload: { promptTokens: 512, newTokens: 32 },
          costModel,
        }).predicted,
    );
    expect(printed?.fits).toBe(true);
    expect(printed?.tokensPerSecond).toBeGreaterThan(shipped?.tokensPerSecond ?? NaN);
  });
});
