import { describe, expect, test } from '@jest/globals';
import { predictRun, rowsInMemory, type CachePages } from '../../src/engine/predictRun.js';
import { requireKnownShape } from '../../src/engine/policy/knownShapes.js';
import { CPU_MACHINE } from './policy/support/hardware.js';

const pages = (count: number, diskShare = 0): CachePages => ({ pages: count, rules: { pageTokens: 32, diskShare, mostDiskPages: 100 } });
const inMemory = { gpu: 0, cpu: 1, disk: 0 };
const block = { batchSize: 32, batches: 2, weights: inMemory, cache: inMemory, activations: inMemory, compressWeights: 'none', compressCache: 'none', cpuAttention: true } as const;

describe('rows that the cache holds beside each other', () => {
  test('are counted at their full length, or at their average one where places are taken at once', () => {
    const workload = { promptTokens: 64, newTokens: 64 };
    expect(rowsInMemory(pages(40), 'zigzag', workload)).toBe(10);
    expect(rowsInMemory(pages(40), 'diagonal', workload)).toBe(13);
    // Half of the pages are on disk: of four pages two.
    expect(rowsInMemory(pages(40, 0.5), 'zigzag', workload)).toBe(20);
    expect(rowsInMemory(pages(1), 'row', workload)).toBe(1);
  });
});

describe('a run that has been', () => {
  const request = { hardware: CPU_MACHINE, shape: requireKnownShape('opt-1.3b'), workload: { promptTokens: 1, newTokens: 1 } };
  const totals = { rows: 256, promptTokens: 256 * 64, newTokens: 256 * 64 };

  test('is predicted for the rows that could share a pass', () => {
    const free = predictRun(request, block, 'zigzag', totals);
    expect(predictRun(request, block, 'zigzag', totals, pages(64 * 4))).toEqual(free);
    const tight = predictRun(request, block, 'zigzag', totals, pages(16 * 4));
    expect(tight).toEqual(predictRun(request, { ...block, batchSize: 8 }, 'zigzag', totals));
    expect(tight?.tokensPerSecond).toBeLessThan((free?.tokensPerSecond ?? 0) * 0.9);
    expect(free?.workload).toEqual({ promptTokens: 64, newTokens: 64, rows: 256 });
  });

  test('takes no more pages than there are: rows of all ages share them', () => {
    const of = (cache?: CachePages): number => predictRun(request, { ...block, batches: 1 }, 'diagonal', totals, cache)?.memoryBytes.cpu ?? NaN;
    const pageBytes = 32 * 24 * 2 * 2048 * 2;
    // Twenty rows of 80 tokens on average share 50 pages, as which they would be 80 at their full length.
    expect(of(pages(80)) - of(pages(50))).toBe(30 * pageBytes);
    expect(of(pages(1000))).toBe(of());
  });

  test('has no prediction where the schedule is unknown or nothing came', () => {
    expect(predictRun(request, block, 'my own', totals)).toBeUndefined();
    expect(predictRun(request, block, 'row', { ...totals, rows: 0 })).toBeUndefined();
    expect(predictRun(request, block, 'row', { ...totals, newTokens: 0 })).toBeUndefined();
  });
});
