import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import type { RuntimeBytes } from '../../../src/bindings/Addon.js';
import type { GpuRuntimeOptions } from '../../../src/bindings/Gpu.js';
import { gpuTier, planGpu, type GpuDemand, type GpuTierDemand } from '../../../src/engine/open/gpuMemory.js';
import { MemoryBudgetError } from '../../../src/errors/MemoryBudgetError.js';

const MIB = 2 ** 20;
const PANEL = 4096;
/** A page of one layer, in a buffer. */
const BUFFER_PAGE = 64 * 1024;
const NO_BUFFERS = { least: 0, most: 0 };

/**
 * What a runtime takes, added up without cleverness: layers rounded down to panels, buffers for what is left of them.
 */
function takes(fixed: number, layers: readonly number[]): GpuDemand['takes'] {
  return (resident, buffers, cacheBufferPages) => {
    const kept = layers.map((bytes) => (buffers === 0 ? bytes : Math.min(bytes, Math.floor(resident / PANEL) * PANEL)));
    return (
      fixed +
      kept.reduce((sum, bytes) => sum + bytes, 0) +
      buffers * Math.max(...layers.map((bytes, layer) => bytes - (kept[layer] ?? 0))) +
      2 * cacheBufferPages * BUFFER_PAGE
    );
  };
}

const share = fc.option(fc.constantFrom(0, 0.25, 0.5, 1), { nil: undefined });
const demand: fc.Arbitrary<GpuDemand> = fc
  .record({
    capBytes: fc.integer({ min: MIB, max: 2048 * MIB }),
    fixed: fc.nat(100 * MIB),
    layers: fc.array(fc.integer({ min: MIB, max: 100 * MIB }), { minLength: 2, maxLength: 30 }),
    pageBytes: fc.integer({ min: 1024, max: 16 * MIB }),
    rows: fc.integer({ min: 1, max: 64 }),
    rowPages: fc.integer({ min: 1, max: 16 }),
    more: fc.nat(500),
    weightShare: share,
    cacheShare: share,
    // Of rows in a square, and of one long row; none: nothing comes to the GPU.
    fetched: fc.option(fc.record({ rows: fc.integer({ min: 1, max: 64 }), long: fc.nat(200), longest: fc.nat(400) }), {
      nil: undefined,
    }),
  })
  .map(({ fixed, layers, more, fetched, ...given }) => ({
    ...given,
    bufferPages: (onGpu: number) => {
      if (!fetched || onGpu === 1) return NO_BUFFERS;
      const of = (pages: number): number => Math.ceil(pages * (1 - onGpu));
      const least = Math.max(fetched.rows * of(given.rowPages), of(fetched.long));
      return { least, most: Math.max(least, of(fetched.longest)) };
    },
    takes: takes(fixed, layers),
    largestLayerBytes: Math.max(...layers),
    minPages: Math.ceil(given.rowPages * (given.cacheShare ?? 1)),
    maxPages: given.rows * given.rowPages + more,
    [fc.toStringMethod]: () => fc.stringify({ fixed, layers, more, fetched, ...given }),
  }));

describe('planGpu', () => {
  test('keeps to the cap and to the shares, and names the smallest cap that works', () => {
    fc.assert(
      fc.property(demand, (given) => {
        try {
          const { residentLayerBytes, buffers, pages, cacheShare, cacheBufferPages } = planGpu(given);
          expect(
            given.takes(residentLayerBytes, buffers, cacheBufferPages) + pages * given.pageBytes,
          ).toBeLessThanOrEqual(given.capBytes);
          expect(pages).toBeLessThanOrEqual(given.maxPages);
          const { least, most } = given.bufferPages(cacheShare);
          expect(cacheBufferPages).toBeGreaterThanOrEqual(least);
          expect(cacheBufferPages).toBeLessThanOrEqual(most);
          if (given.weightShare !== undefined)
            expect(buffers === 0 ? 1 : residentLayerBytes / given.largestLayerBytes).toBeCloseTo(given.weightShare, 5);
          if (given.cacheShare !== undefined) expect(cacheShare).toBe(given.cacheShare);
          // Where nobody has decided on it, so much of the cache is promised as a full block of usual rows finds.
          else expect(Math.round(given.rowPages * cacheShare) * given.rows).toBeLessThanOrEqual(pages);
          if (cacheShare > 0 && given.cacheShare !== undefined) expect(pages).toBeGreaterThanOrEqual(given.minPages);
        } catch (error) {
          if (!(error instanceof MemoryBudgetError)) throw error;
          expect(error.tier).toBe('gpu');
          expect(() => planGpu({ ...given, capBytes: error.neededBytes })).not.toThrow();
          expect(() => planGpu({ ...given, capBytes: error.neededBytes - 1 })).toThrow(MemoryBudgetError);
        }
      }),
      { numRuns: 500 },
    );
  });

  test('weights that fit are all there; else the cache of a full block comes first, and nothing useful is left over', () => {
    const layers = [10 * MIB, 10 * MIB, 10 * MIB, 10 * MIB];
    const given = {
      takes: takes(MIB, layers),
      largestLayerBytes: 10 * MIB,
      pageBytes: MIB / 4,
      rows: 4,
      rowPages: 4,
      minPages: 2,
      maxPages: 100,
      bufferPages: () => NO_BUFFERS,
    };
    expect(planGpu({ ...given, capBytes: 100 * MIB })).toMatchObject({ buffers: 0, cacheShare: 1, pages: 100 });
    expect(planGpu({ ...given, capBytes: 43 * MIB })).toMatchObject({ buffers: 0, cacheShare: 0.5, pages: 8 });
    const streaming = planGpu({ ...given, capBytes: 35 * MIB });
    expect(streaming).toMatchObject({ buffers: 2, cacheShare: 1, pages: 16 });
    expect(given.takes(streaming.residentLayerBytes + PANEL, 2, 0) + 4 * MIB).toBeGreaterThan(35 * MIB);
    expect(() => planGpu({ ...given, capBytes: 10 * MIB })).toThrow(
      'gpu memory is capped at 10 MiB; the smallest budget that works is 21 MiB',
    );
  });
});

const [LAYERS, LAYER, GLOBAL, SCRATCH, ACTIVATION, PAGE] = [4, 1000, 500, 300, 50, 10];

/** What a runtime of four equal layers would take. */
function measure({
  residentLayerBytes,
  buffers,
  pages,
  cacheBuffers,
  cacheBufferPages,
}: GpuRuntimeOptions): RuntimeBytes {
  const rest = LAYER - Math.min(LAYER, residentLayerBytes);
  if (buffers > 0 !== rest > 0) throw new Error('buffers where nothing is loaded, or none where something is');
  return {
    weights: LAYERS * rest,
    weightBuffers: 0,
    cache: PAGE,
    scratch: 0,
    activations: 0,
    state: 0,
    staging: 0,
    held: 0,
    spill: 0,
    pageSlot: 4096,
    pageKeys: 0,
    spillBlock: 4096,
    streamed: new Array<number>(LAYERS).fill(rest),
    streamedExperts: new Array<number>(LAYERS).fill(0),
    gpu: {
      weights: GLOBAL + LAYERS * (LAYER - rest),
      weightBuffers: buffers * rest,
      cache: pages * PAGE,
      cacheBuffers: cacheBuffers * cacheBufferPages * (PAGE / LAYERS),
      scratch: SCRATCH,
      activations: ACTIVATION,
      unpinned: 0,
      streamedFromStore: [],
    },
  };
}

const tierDemand = (capBytes: number, more: Partial<GpuTierDemand['settings']> = {}): GpuTierDemand => ({
  settings: {
    device: 0,
    products: 'own',
    capBytes,
    weightShare: undefined,
    cacheShare: undefined,
    activationShare: 1,
    hostShare: 1,
    ...more,
  },
  measure,
  tablePages: 1,
  activationBuffers: 2,
  rows: 3,
  rowPages: 4,
  minPages: 2,
  maxPages: 40,
  seenPages: Infinity,
  bufferPages: (share) => (share === 1 ? NO_BUFFERS : { least: 8, most: 8 }),
});
/** All weights, scratch and hidden states. */
const WHOLE = GLOBAL + LAYERS * LAYER + SCRATCH + 2 * ACTIVATION;

describe('gpuTier', () => {
  test('keeps every layer where all fit, and counts everything', () => {
    const tier = gpuTier(tierDemand(WHOLE + 12 * PAGE));
    expect(tier).toMatchObject({
      cacheShare: 1,
      fixedBytes: WHOLE,
      pageBytes: PAGE,
      options: { buffers: 0, pages: 12, memoryBytes: WHOLE + 12 * PAGE },
    });
    expect(measure(tier.options).streamed).toEqual([0, 0, 0, 0]);
  });

  test('streams what does not fit, never above the cap', () => {
    for (let cap = GLOBAL + 2 * LAYER + SCRATCH + 2 * ACTIVATION; cap < WHOLE; cap += 7) {
      const { options, fixedBytes } = gpuTier(tierDemand(cap));
      const { gpu } = measure(options);
      const taken = (gpu?.weights ?? 0) + (gpu?.weightBuffers ?? 0) + (gpu?.scratch ?? 0) + 2 * (gpu?.activations ?? 0);
      expect(taken).toBe(fixedBytes);
      expect(taken + options.pages * PAGE).toBeLessThanOrEqual(cap);
      // A byte more of each layer would not have fitted.
      expect(taken + (LAYERS - 2) + options.pages * PAGE).toBeGreaterThan(cap);
    }
    expect(() => gpuTier(tierDemand(GLOBAL + 2 * LAYER + SCRATCH + 2 * ACTIVATION - 1))).toThrow(
      'gpu memory is capped',
    );
  });

  test('has two buffers for pages that come to it, unless all of the cache is there', () => {
    const buffered = { cacheBuffers: 2, cacheBufferPages: 8 };
    const bytes = (2 * 8 * PAGE) / LAYERS;
    expect(gpuTier(tierDemand(WHOLE + 12 * PAGE, { hostShare: 0 }))).toMatchObject({
      cacheShare: 1,
      options: { cacheBuffers: 0, cacheBufferPages: 0 },
    });
    const half = gpuTier(tierDemand(WHOLE + 12 * PAGE + bytes, { hostShare: 0, cacheShare: 0.5 }));
    expect(half).toMatchObject({ cacheShare: 0.5, fixedBytes: WHOLE + bytes, options: { ...buffered, pages: 12 } });
    // Room for one page a row: what the buffers take is less cache there.
    const little = gpuTier(tierDemand(WHOLE + 3 * PAGE + bytes, { hostShare: 0 }));
    expect(little).toMatchObject({ cacheShare: 0.25, fixedBytes: WHOLE + bytes, options: buffered });
    expect(() => gpuTier(tierDemand(WHOLE + bytes - 1, { hostShare: 0, cacheShare: 0, weightShare: 1 }))).toThrow(
      'gpu memory is capped',
    );
  });

  test('a share that leaves no page of any row elsewhere is all of the cache, without buffers', () => {
    const demand = tierDemand(WHOLE + 12 * PAGE, { hostShare: 0, cacheShare: 0.9 });
    expect(gpuTier({ ...demand, bufferPages: () => NO_BUFFERS })).toMatchObject({
      cacheShare: 1,
      fixedBytes: WHOLE,
      options: { cacheBuffers: 0, cacheBufferPages: 0, pages: 12 },
    });
  });

  test('buffers are those of the share that was planned, and none where weights make way for all of the cache', () => {
    const pagesOf = (share: number): number => 8 * (1 - share);
    const bufferPages: GpuTierDemand['bufferPages'] = (share) => ({ least: pagesOf(share), most: pagesOf(share) });
    const bytes = (share: number): number => (2 * pagesOf(share) * PAGE) / LAYERS;
    const capBytes = WHOLE + 6 * PAGE + bytes(0.5);
    expect(gpuTier({ ...tierDemand(capBytes, { hostShare: 0 }), bufferPages })).toMatchObject({
      cacheShare: 0.5,
      fixedBytes: WHOLE + bytes(0.5),
      options: { buffers: 0, cacheBuffers: 2, cacheBufferPages: 4, pages: 6 },
    });
    // Not even a buffer for none of the cache fits beside all weights.
    const { options, fixedBytes, cacheShare } = gpuTier({
      ...tierDemand(WHOLE + bytes(0) - 1, { hostShare: 0 }),
      bufferPages,
    });
    expect({ cacheShare, ...options }).toMatchObject({
      cacheShare: 1,
      cacheBuffers: 0,
      cacheBufferPages: 0,
      buffers: 2,
      pages: 12,
    });
    // A byte more of each layer would not have fitted.
    expect(fixedBytes + (LAYERS - 2) + 12 * PAGE).toBeGreaterThan(WHOLE + bytes(0) - 1);
  });

  test('a refusal names the least that works, with the buffers that it takes', () => {
    for (const more of [{}, { weightShare: 0.5 }, { weightShare: 1 }, { cacheShare: 0.5 }]) {
      const open = (capBytes: number): unknown => gpuTier(tierDemand(capBytes, { hostShare: 0, ...more }));
      let needed = 0;
      try {
        open(100);
      } catch (error) {
        expect(error).toBeInstanceOf(MemoryBudgetError);
        needed = (error as MemoryBudgetError).neededBytes;
      }
      expect(needed).toBeGreaterThan(100);
      expect(open(needed)).toBeDefined();
      expect(() => open(needed - 1)).toThrow(MemoryBudgetError);
    }
  });

  test('buffers grow to what the longest row needs, by what a full block leaves over', () => {
    const growing = (capBytes: number, cacheShare: number): ReturnType<typeof gpuTier> =>
      gpuTier({
        ...tierDemand(capBytes, { hostShare: 0, cacheShare }),
        bufferPages: () => ({ least: 8, most: 100 }),
        seenPages: 90,
      });
    const bytes = (pages: number): number => (2 * pages * PAGE) / LAYERS;
    expect(growing(WHOLE + bytes(20), 0)).toMatchObject({ mostFetched: 20, options: { cacheBufferPages: 20 } });
    // No row has more than 90 pages that a layer sees.
    expect(growing(WHOLE + bytes(95), 0)).toMatchObject({ mostFetched: Infinity, options: { cacheBufferPages: 95 } });
    expect(growing(WHOLE + bytes(1000), 0)).toMatchObject({ options: { cacheBufferPages: 100 } });
    // Six pages are those of three rows.
    expect(growing(WHOLE + bytes(20) + 6 * PAGE, 0.5).options).toMatchObject({ cacheBufferPages: 20, pages: 6 });
    expect(growing(WHOLE + bytes(100) + 9 * PAGE, 0.5).options).toMatchObject({ cacheBufferPages: 100, pages: 9 });
  });

  test('keeps to shares that were decided', () => {
    expect(gpuTier(tierDemand(WHOLE, { weightShare: 0.25, cacheShare: 0.5 })).options).toMatchObject({
      residentLayerBytes: 250,
      buffers: 2,
    });
    expect(gpuTier(tierDemand(WHOLE, { weightShare: 0.25, cacheShare: 0 })).options.pages).toBe(0);
    expect(() => gpuTier(tierDemand(WHOLE - 1, { weightShare: 1 }))).toThrow('`gpuMemory: 4900');
  });
});
