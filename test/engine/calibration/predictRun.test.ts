import { describe, expect, test } from '@jest/globals';
import {
  admittedPerSweep,
  predictRun,
  rowsInMemory,
  type CachePages,
} from '../../../src/engine/calibration/predictRun.js';
import { requireKnownShape } from '../../../src/plan/knownShapes.js';
import { builtIn, CPU_MACHINE } from '../../plan/support/hardware.js';

const pages = (count: number, diskShare = 0): CachePages => ({
  pages: count,
  rules: { pageTokens: 32, diskShare, mostDiskPages: 100 },
});
const inMemory = { gpu: 0, cpu: 1, disk: 0 };
const block = {
  batchSize: 32,
  batches: 2,
  weights: inMemory,
  cache: inMemory,
  activations: inMemory,
  compressWeights: 'none',
  compressCache: 'none',
  cpuAttention: true,
} as const;

describe('rows that the cache holds', () => {
  const workload = { promptTokens: 64, newTokens: 64 };

  test('beside each other are counted at their full length', () => {
    expect(rowsInMemory(pages(40), workload)).toBe(10);
    // Half of the pages are on disk: of four pages two.
    expect(rowsInMemory(pages(40, 0.5), workload)).toBe(20);
    expect(rowsInMemory(pages(1), workload)).toBe(1);
  });

  test('come in at the pace at which pages are given back', () => {
    // Of 127 positions two pages at first and four in the end: 63 sweeps of three and a half, and one sweep each of two
    // and of four.
    expect(admittedPerSweep(pages(453), workload)).toBeCloseTo(2);
  });
});

describe('a run that has been', () => {
  const request = {
    hardware: CPU_MACHINE,
    shape: requireKnownShape('opt-1.3b'),
    workload: { promptTokens: 1, newTokens: 1 },
  };
  const totals = { rows: 256, promptTokens: 256 * 64, newTokens: 256 * 64 };

  test('is predicted for the rows that could share a pass', () => {
    const free = predictRun(request, block, 'zigzag', totals);
    expect(predictRun(request, block, 'zigzag', totals, pages(64 * 4))).toEqual(free);
    const tight = predictRun(request, block, 'zigzag', totals, pages(16 * 4));
    expect(tight).toEqual(predictRun(request, { ...block, batchSize: 8 }, 'zigzag', totals));
    expect(tight?.tokensPerSecond).toBeLessThan((free?.tokensPerSecond ?? 0) * 0.9);
    expect(free?.workload).toEqual({ promptTokens: 64, newTokens: 64, rows: 256 });
  });

  test('takes longer where memory lets rows in one by one', () => {
    const seconds = (cache?: CachePages): number =>
      predictRun(request, { ...block, batches: 1 }, 'diagonal', totals, cache)?.wallSeconds ?? NaN;
    expect(seconds(pages(128))).toBe(seconds());
    // Where nearly all places have memory rows share it at their average, and it costs nothing.
    expect(seconds(pages(120)) / seconds()).toBeCloseTo(1, 1);
    expect(seconds(pages(40)) / seconds()).toBeGreaterThan(1.1);
  });

  test('takes no more pages than there are: rows of all ages share them', () => {
    const of = (cache?: CachePages): number =>
      predictRun(request, { ...block, batches: 1 }, 'diagonal', totals, cache)?.memoryBytes.cpu ?? NaN;
    const pageBytes = 32 * 24 * 2 * 2048 * 2;
    // 32 rows would take 128 pages at their full length.
    expect(of(pages(128)) - of(pages(50))).toBe(78 * pageBytes);
    expect(of(pages(1000))).toBe(of());
    // And it fits where so many pages do, though rows at their full length would not.
    const { fits, memoryBytes } = predictRun(request, { ...block, batches: 1 }, 'diagonal', totals, pages(50)) ?? {
      fits: false,
      memoryBytes: { cpu: NaN },
    };
    expect(fits).toBe(true);
    const memory = {
      ...CPU_MACHINE.memory,
      cpuBytes: (memoryBytes.cpu + of(pages(128))) / 2 / CPU_MACHINE.usableFraction,
    };
    const small = { ...request, hardware: { ...CPU_MACHINE, memory } };
    expect(predictRun(small, { ...block, batches: 1 }, 'diagonal', totals, pages(50))?.fits).toBe(true);
    expect(predictRun(small, { ...block, batches: 1 }, 'diagonal', totals, pages(128))?.fits).toBe(false);
  });

  test('has no prediction where the schedule is unknown or nothing came', () => {
    expect(predictRun(request, block, 'my own', totals)).toBeUndefined();
    expect(predictRun(request, block, 'row', { ...totals, rows: 0 })).toBeUndefined();
    expect(predictRun(request, block, 'row', { ...totals, newTokens: 0 })).toBeUndefined();
  });

  test('on three tiers is predicted for them, with what the link takes for attention on the processor', () => {
    const hardware = builtIn('flexgen-t4');
    const on = { ...request, hardware, shape: requireKnownShape('opt-6.7b') };
    const shares = {
      weights: { gpu: 0.3, cpu: 0.5, disk: 0.2 },
      cache: { gpu: 0.5, cpu: 0.5, disk: 0 },
      activations: { gpu: 1, cpu: 0, disk: 0 },
    };
    const cache = {
      pages: 1e6,
      gpuPages: 1e6,
      rules: { pageTokens: 32, gpuShare: 0.5, diskShare: 0, mostDiskPages: 0 },
    };
    const of = (links = hardware.links, pages: CachePages = cache): ReturnType<typeof predictRun> =>
      predictRun({ ...on, hardware: { ...hardware, links } }, { ...block, ...shares }, 'zigzag', totals, pages);
    const run = of();
    expect(Object.keys(run?.queueSeconds ?? {}).sort()).toEqual([
      'cpu-compute',
      'device-to-host',
      'disk-read',
      'disk-write',
      'gpu-compute',
      'host-to-device',
    ]);
    for (const queue of ['cpu-compute', 'gpu-compute', 'host-to-device', 'disk-read'])
      expect(run?.queueSeconds[queue]).toBeGreaterThan(0);
    for (const bytes of Object.values(run?.memoryBytes ?? {})) expect(bytes).toBeGreaterThan(0);
    const far = of({ ...hardware.links, copySeconds: 1e-4 });
    expect(far?.queueSeconds['cpu-compute']).toBeGreaterThan(run?.queueSeconds['cpu-compute'] ?? Infinity);
    // Pages for few rows, on either side, and fewer share a pass.
    expect(of(hardware.links, { ...cache, gpuPages: 16 })?.tokensPerSecond).toBeLessThan(
      (run?.tokensPerSecond ?? 0) * 0.9,
    );
  });
});
