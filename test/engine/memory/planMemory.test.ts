import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { planMemory, type MemoryDemand } from '../../../src/engine/memory/planMemory.js';
import { HEAP_MARGIN_BYTES } from '../../../src/plan/reserves.js';
import { MemoryBudgetError } from '../../../src/errors/MemoryBudgetError.js';

const MIB = 2 ** 20;
const demand = fc.record({
  capBytes: fc.integer({ min: 1, max: 4096 * MIB }),
  residentBytes: fc.integer({ min: 0, max: 300 * MIB }),
  laterBytes: fc.integer({ min: 300 * MIB, max: 340 * MIB }),
  weightBytes: fc.nat(2048 * MIB),
  workingBytes: fc.nat(200 * MIB),
  pageBytes: fc.integer({ min: 64, max: 64 * MIB }),
  leastPages: fc.integer({ min: 1, max: 16 }),
  mostPages: fc.integer({ min: 16, max: 100_000 }),
});

describe('planMemory', () => {
  test('never plans more than the cap, and takes all that is useful', () => {
    fc.assert(
      fc.property(demand, (given) => {
        try {
          const { pages, reservedBytes } = planMemory(given);
          expect(given.residentBytes + reservedBytes).toBeLessThanOrEqual(given.capBytes);
          expect(pages).toBeGreaterThanOrEqual(given.leastPages);
          expect(pages).toBeLessThanOrEqual(given.mostPages);
          if (pages < given.mostPages)
            expect(given.residentBytes + reservedBytes + given.pageBytes).toBeGreaterThan(given.capBytes);
        } catch (error) {
          if (!(error instanceof MemoryBudgetError)) throw error;
          expect(error.availableBytes).toBe(given.capBytes);
          // The budget that the message names works at a start that finds more taken, and one byte less does not.
          const later = { ...given, residentBytes: given.laterBytes };
          expect(planMemory({ ...later, capBytes: error.neededBytes }).pages).toBe(given.leastPages);
          expect(() => planMemory({ ...later, capBytes: error.neededBytes - 1 })).toThrow(MemoryBudgetError);
        }
      }),
    );
  });

  test('says what is asked for and what would do, at later starts too', () => {
    const small: MemoryDemand = {
      capBytes: 100 * MIB,
      residentBytes: 50 * MIB,
      laterBytes: 66 * MIB,
      weightBytes: 80 * MIB,
      workingBytes: 0,
      pageBytes: MIB,
      leastPages: 4,
      mostPages: 8,
    };
    const needed = 66 * MIB + 80 * MIB + 4 * MIB + HEAP_MARGIN_BYTES;
    expect(() => planMemory(small)).toThrow(
      `cpu memory is capped at 100 MiB; the smallest budget that works is 214 MiB (--cpu-memory ${needed})`,
    );
  });
});
