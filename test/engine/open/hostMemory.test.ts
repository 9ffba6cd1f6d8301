import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import {
  firstFit,
  heapLimitBytes,
  planResident,
  planStreaming,
  processBytes,
  type ResidentDemand,
  type StreamingDemand,
} from '../../../src/engine/open/hostMemory.js';
import { morePinnedBytes } from '../../../src/engine/open/gpuMemory.js';
import { HEAP_MARGIN_BYTES, NATIVE_GROWTH_BYTES, PINNED_BYTES } from '../../../src/plan/reserves.js';
import { MemoryBudgetError } from '../../../src/errors/MemoryBudgetError.js';

const MIB = 2 ** 20;
const demand = fc.record({
  capBytes: fc.integer({ min: 1, max: 4096 * MIB }),
  residentBytes: fc.integer({ min: 0, max: 300 * MIB }),
  nextStartBytes: fc.integer({ min: 300 * MIB, max: 340 * MIB }),
  weightBytes: fc.nat(2048 * MIB),
  workingBytes: fc.nat(200 * MIB),
  pageBytes: fc.integer({ min: 64, max: 64 * MIB }),
  minPages: fc.integer({ min: 1, max: 16 }),
  maxPages: fc.integer({ min: 16, max: 100_000 }),
});

describe('planResident', () => {
  test('never plans more than the cap, and takes all that is useful', () => {
    fc.assert(
      fc.property(demand, (given) => {
        try {
          const { pages, reservedBytes } = planResident(given);
          expect(given.residentBytes + reservedBytes).toBeLessThanOrEqual(given.capBytes);
          expect(pages).toBeGreaterThanOrEqual(given.minPages);
          expect(pages).toBeLessThanOrEqual(given.maxPages);
          if (pages < given.maxPages)
            expect(given.residentBytes + reservedBytes + given.pageBytes).toBeGreaterThan(given.capBytes);
        } catch (error) {
          if (!(error instanceof MemoryBudgetError)) throw error;
          expect(error.availableBytes).toBe(given.capBytes);
          // The budget that the message names works at a start that finds more taken, and one byte less does not.
          const later = { ...given, residentBytes: given.nextStartBytes };
          expect(planResident({ ...later, capBytes: error.neededBytes }).pages).toBe(given.minPages);
          expect(() => planResident({ ...later, capBytes: error.neededBytes - 1 })).toThrow(MemoryBudgetError);
        }
      }),
    );
  });

  test('says what is asked for and what would do, at later starts too', () => {
    const small: ResidentDemand = {
      capBytes: 100 * MIB,
      residentBytes: 50 * MIB,
      nextStartBytes: 66 * MIB,
      weightBytes: 80 * MIB,
      workingBytes: 0,
      pageBytes: MIB,
      minPages: 4,
      maxPages: 8,
    };
    const needed = 66 * MIB + 80 * MIB + 4 * MIB + HEAP_MARGIN_BYTES;
    expect(() => planResident(small)).toThrow(
      `cpu memory is capped at 100 MiB; the smallest budget that works is 214 MiB (\`cpuMemory: ${needed}\`)`,
    );
  });
});

const streamingDemand: fc.Arbitrary<StreamingDemand> = fc.record({
  capBytes: fc.integer({ min: 100 * MIB, max: 4096 * MIB }),
  residentBytes: fc.nat(200 * MIB),
  nextStartBytes: fc.integer({ min: 200 * MIB, max: 240 * MIB }),
  fixedBytes: fc.nat(300 * MIB),
  pageBytes: fc.integer({ min: 1024, max: 16 * MIB }),
  layerBytes: fc.array(fc.integer({ min: MIB, max: 200 * MIB }), { minLength: 2, maxLength: 40 }),
  buffers: fc.integer({ min: 1, max: 2 }),
  minPages: fc.integer({ min: 1, max: 16 }),
  blockPages: fc.integer({ min: 1, max: 2000 }),
  longRowPages: fc.integer({ min: 0, max: 2000 }),
  morePinnedBytes: fc.oneof(fc.constant(0), fc.nat(224 * MIB)),
});
/** What a plan takes, added up without cleverness. */
const taken = (given: StreamingDemand, pages: number, resident: number): number =>
  given.residentBytes +
  64 * MIB +
  given.fixedBytes +
  pages * given.pageBytes +
  given.layerBytes.reduce((sum, bytes) => sum + Math.min(bytes, resident), 0) +
  given.buffers * Math.max(0, ...given.layerBytes.map((bytes) => bytes - resident));

describe('planStreaming', () => {
  test('keeps to the cap, and names the smallest cap that works', () => {
    fc.assert(
      fc.property(streamingDemand, (given) => {
        try {
          const { pages, residentLayerBytes = NaN, morePinnedBytes = NaN, reservedBytes } = planStreaming(given);
          expect(given.residentBytes + reservedBytes).toBe(taken(given, pages, residentLayerBytes) + morePinnedBytes);
          expect(given.residentBytes + reservedBytes).toBeLessThanOrEqual(given.capBytes);
          expect(pages).toBeGreaterThanOrEqual(given.minPages);
          // Nothing useful is left over: neither a page, as long as the batch wants one, nor a byte of every layer.
          if (pages < Math.max(given.blockPages, given.longRowPages))
            expect(taken(given, pages + 1, 0)).toBeGreaterThan(given.capBytes);
          const streams = residentLayerBytes < Math.max(...given.layerBytes);
          if (streams)
            expect(taken(given, pages, residentLayerBytes + 1) + morePinnedBytes).toBeGreaterThan(given.capBytes);
          // It makes way for what is needed alone, and where nothing streams nothing more is pinned.
          if (streams && residentLayerBytes > 0) expect(morePinnedBytes).toBe(given.morePinnedBytes);
          else expect(morePinnedBytes).toBeLessThanOrEqual(streams ? given.morePinnedBytes : 0);
        } catch (error) {
          if (!(error instanceof MemoryBudgetError)) throw error;
          // The budget that the message names works at a start that finds more taken, and one byte less does not.
          const later = { ...given, residentBytes: given.nextStartBytes };
          expect(planStreaming({ ...later, capBytes: error.neededBytes }).pages).toBe(given.minPages);
          expect(() => planStreaming({ ...later, capBytes: error.neededBytes - 1 })).toThrow(MemoryBudgetError);
        }
      }),
    );
  });

  test('more memory never makes less resident, of cache or of weights', () => {
    fc.assert(
      fc.property(streamingDemand, fc.nat(512 * MIB), (given, more) => {
        try {
          const [small, large] = [planStreaming(given), planStreaming({ ...given, capBytes: given.capBytes + more })];
          expect(large.pages).toBeGreaterThanOrEqual(small.pages);
          if (large.pages === small.pages)
            expect(large.residentLayerBytes).toBeGreaterThanOrEqual(small.residentLayerBytes ?? NaN);
        } catch (error) {
          if (!(error instanceof MemoryBudgetError)) throw error;
        }
      }),
    );
  });
});

test('a share of the weights that a plan has chosen makes way for the longest row, and for no block; one that is given for nothing', () => {
  const given: StreamingDemand = {
    capBytes: (100 + 64 + 10 + 550) * MIB,
    residentBytes: 100 * MIB,
    nextStartBytes: 100 * MIB,
    fixedBytes: 10 * MIB,
    pageBytes: MIB,
    layerBytes: new Array<number>(10).fill(100 * MIB),
    buffers: 0,
    minPages: 4,
    blockPages: 500,
    longRowPages: 80,
    residentShare: 0.5,
    morePinnedBytes: 0,
  };
  expect(planStreaming(given)).toMatchObject({ pages: 50, residentLayerBytes: 50 * MIB });
  expect(planStreaming({ ...given, shareYields: true })).toMatchObject({ pages: 80, residentLayerBytes: 47 * MIB });
  expect(planStreaming({ ...given, longRowPages: 20, shareYields: true })).toMatchObject({
    pages: 50,
    residentLayerBytes: 50 * MIB,
  });
});

describe('what more is pinned for weights that stream to a GPU', () => {
  const given: StreamingDemand = {
    capBytes: 2048 * MIB,
    residentBytes: 100 * MIB,
    nextStartBytes: 100 * MIB,
    fixedBytes: 200 * MIB,
    pageBytes: MIB,
    layerBytes: new Array<number>(16).fill(100 * MIB),
    buffers: 0,
    minPages: 4,
    blockPages: 400,
    longRowPages: 0,
    morePinnedBytes: 96 * MIB,
  };

  test('comes before weights that stay, also where a share of them was decided', () => {
    const without = planStreaming({ ...given, morePinnedBytes: 0 });
    const plan = planStreaming(given);
    expect(plan).toMatchObject({ morePinnedBytes: 96 * MIB, pages: 400, reservedBytes: without.reservedBytes });
    expect(plan.residentLayerBytes).toBe((without.residentLayerBytes ?? NaN) - 6 * MIB);
    expect(planStreaming({ ...given, residentShare: 0.5 })).toMatchObject({
      morePinnedBytes: 96 * MIB,
      residentLayerBytes: 50 * MIB,
    });
  });

  test('comes behind the cache, and behind all that is needed', () => {
    const small = { ...given, capBytes: (100 + 200 + 64 + 400 + 10) * MIB };
    expect(planStreaming(small)).toMatchObject({ morePinnedBytes: 10 * MIB, pages: 400, residentLayerBytes: 0 });
    expect(planStreaming({ ...small, capBytes: (100 + 200 + 64 + 4) * MIB })).toMatchObject({
      morePinnedBytes: 0,
      pages: 4,
    });
  });

  test('is nothing where all weights stay after all', () => {
    expect(planStreaming({ ...given, capBytes: 4096 * MIB }).morePinnedBytes).toBe(0);
    expect(planStreaming({ ...given, capBytes: 4096 * MIB, residentShare: 1 }).morePinnedBytes).toBe(0);
  });

  test('makes 256 MiB with what is pinned anyway, or a sixteenth of a cap that is small', () => {
    const all = (gibibytes: number): number => (PINNED_BYTES + morePinnedBytes(gibibytes * 1024 * MIB)) / MIB;
    expect([0.25, 0.5, 1, 2, 4, 8, 512].map(all)).toEqual([32, 32, 64, 128, 256, 256, 256]);
  });
});

test('a process as it usually starts counts the same, whatever it holds to the megabyte', () => {
  const counted = new Set([60, 82, 105, 117, 132, 150].map((mib) => processBytes(mib * MIB, 49_152).residentBytes));
  expect(counted.size).toBe(1);
  const [typical = NaN] = counted;
  expect(typical).toBeGreaterThan(117 * MIB);
  expect(typical).toBeLessThan(125 * MIB);
  expect(processBytes(80 * MIB, 256).residentBytes).toBeLessThan(90 * MIB);
});

test('one that holds more counts as it is, and advice is for a start that finds a little more', () => {
  const { residentBytes, nextStartBytes } = processBytes(700 * MIB, 49_152);
  expect(residentBytes).toBe(700 * MIB);
  expect(nextStartBytes).toBeGreaterThanOrEqual(716 * MIB);
  expect(processBytes(703 * MIB, 49_152).nextStartBytes).toBe(nextStartBytes);
});

test('a heap may take what the cap leaves beside what is reserved and what the process is without it', () => {
  const limit = heapLimitBytes(
    300 * MIB,
    { reservedBytes: 100 * MIB + HEAP_MARGIN_BYTES },
    { residentBytes: 110 * MIB, heapBytes: 60 * MIB },
  );
  expect(limit).toBe(150 * MIB - NATIVE_GROWTH_BYTES);
});

describe('firstFit', () => {
  const lacks = (tier: 'cpu' | 'gpu', needed: number) => (): never => {
    throw new MemoryBudgetError(tier, 1, needed, 'it');
  };

  test('takes the first that fits, and tries no further', () => {
    const tried: string[] = [];
    const made = firstFit(['a', 'b', 'c'], (choice) => {
      tried.push(choice);
      return choice === 'a' ? lacks('cpu', 5)() : choice;
    });
    expect([made, tried]).toEqual(['b', ['a', 'b']]);
  });

  test('where none fits the smallest budget is named; of what does not fit the GPU only where nothing does', () => {
    const choices = [lacks('gpu', 1), lacks('cpu', 9), lacks('cpu', 7), lacks('gpu', 2), lacks('cpu', 8)];
    expect(() => firstFit(choices, (each) => each())).toThrow('`cpuMemory: 7`');
    expect(() => firstFit([lacks('gpu', 3), lacks('gpu', 2)], (each) => each())).toThrow('`gpuMemory: 2`');
  });

  const holding = (tokens: number): number => tokens;

  test('goes on to one that holds the row that is wanted, and makes do with the longest where none does', () => {
    const choices = [30, 70, 50, 70, 90];
    const lackingAt = (each: number): number => (each === 50 ? lacks('cpu', 5)() : each);
    expect(firstFit(choices, lackingAt, 60, holding)).toBe(70);
    expect(firstFit(choices, lackingAt, 80, holding)).toBe(90);
    expect(firstFit(choices, lackingAt, 1000, holding)).toBe(90);
    expect(firstFit([50, 30, 20], lackingAt, 1000, holding)).toBe(30);
  });

  test('the longest row that is answered grows with the cap, whatever choices there are of blocks and places', () => {
    const choice = fc.record({ fixedBytes: fc.nat(300 * MIB), weightBytes: fc.nat(300 * MIB), streams: fc.boolean() });
    const shared = fc.record({
      residentBytes: fc.nat(200 * MIB),
      pageBytes: fc.integer({ min: 1024, max: 4 * MIB }),
      minPages: fc.integer({ min: 1, max: 16 }),
      blockPages: fc.integer({ min: 1, max: 500 }),
      layerBytes: fc.array(fc.integer({ min: MIB, max: 40 * MIB }), { minLength: 3, maxLength: 12 }),
    });
    const wantedPages = fc.integer({ min: 1, max: 300 });
    fc.assert(
      fc.property(fc.array(choice, { minLength: 1, maxLength: 6 }), shared, wantedPages, (choices, rest, wanted) => {
        let before = 0;
        for (let capBytes = 100 * MIB; capBytes < 1200 * MIB; capBytes += 5 * MIB) {
          const host = { ...rest, capBytes, nextStartBytes: rest.residentBytes };
          const make = ({ fixedBytes: bytes, weightBytes, streams }: (typeof choices)[number]): number =>
            (streams
              ? planStreaming({ ...host, fixedBytes: bytes, buffers: 2, longRowPages: wanted, morePinnedBytes: 0 })
              : planResident({ ...host, weightBytes, workingBytes: bytes, maxPages: 10_000 })
            ).pages;
          let longest = 0;
          try {
            longest = Math.min(wanted, firstFit(choices, make, wanted, holding));
          } catch (error) {
            if (!(error instanceof MemoryBudgetError)) throw error;
          }
          expect(longest).toBeGreaterThanOrEqual(before);
          before = longest;
        }
      }),
    );
  });

  test('whatever else is wrong ends it', () => {
    expect(() =>
      firstFit([new TypeError('x'), new TypeError('y')], (each) => {
        throw each;
      }),
    ).toThrow('x');
  });
});
