import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { planStreaming, type StreamingDemand } from '../../../src/engine/memory/planStreaming.js';
import { MemoryBudgetError } from '../../../src/errors/MemoryBudgetError.js';

const MIB = 2 ** 20;
const demand: fc.Arbitrary<StreamingDemand> = fc.record({
  capBytes: fc.integer({ min: 100 * MIB, max: 4096 * MIB }),
  residentBytes: fc.nat(200 * MIB),
  laterBytes: fc.integer({ min: 200 * MIB, max: 240 * MIB }),
  fixedBytes: fc.nat(300 * MIB),
  pageBytes: fc.integer({ min: 1024, max: 16 * MIB }),
  layerBytes: fc.array(fc.integer({ min: MIB, max: 200 * MIB }), { minLength: 2, maxLength: 40 }),
  buffers: fc.integer({ min: 1, max: 2 }),
  leastPages: fc.integer({ min: 1, max: 16 }),
  usualPages: fc.integer({ min: 16, max: 2000 }),
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
      fc.property(demand, (given) => {
        try {
          const { pages, residentLayerBytes, reservedBytes } = planStreaming(given);
          expect(given.residentBytes + reservedBytes).toBe(taken(given, pages, residentLayerBytes));
          expect(given.residentBytes + reservedBytes).toBeLessThanOrEqual(given.capBytes);
          expect(pages).toBeGreaterThanOrEqual(given.leastPages);
          // Nothing useful is left over: neither a page, as long as the batch wants one, nor a byte of every layer.
          if (pages < given.usualPages) expect(taken(given, pages + 1, 0)).toBeGreaterThan(given.capBytes);
          if (residentLayerBytes < Math.max(...given.layerBytes))
            expect(taken(given, pages, residentLayerBytes + 1)).toBeGreaterThan(given.capBytes);
        } catch (error) {
          if (!(error instanceof MemoryBudgetError)) throw error;
          // The budget that the message names works at a start that finds more taken, and one byte less does not.
          const later = { ...given, residentBytes: given.laterBytes };
          expect(planStreaming({ ...later, capBytes: error.neededBytes }).pages).toBe(given.leastPages);
          expect(() => planStreaming({ ...later, capBytes: error.neededBytes - 1 })).toThrow(MemoryBudgetError);
        }
      }),
    );
  });

  test('more memory never makes less resident, of cache or of weights', () => {
    fc.assert(
      fc.property(demand, fc.nat(512 * MIB), (given, more) => {
        try {
          const [small, large] = [planStreaming(given), planStreaming({ ...given, capBytes: given.capBytes + more })];
          expect(large.pages).toBeGreaterThanOrEqual(small.pages);
          if (large.pages === small.pages)
            expect(large.residentLayerBytes).toBeGreaterThanOrEqual(small.residentLayerBytes);
        } catch (error) {
          if (!(error instanceof MemoryBudgetError)) throw error;
        }
      }),
    );
  });
});
