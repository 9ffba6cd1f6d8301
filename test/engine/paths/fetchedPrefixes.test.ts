import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import type { Task } from '../../../src/engine/grid/Task.js';
import { diagonalBlock } from '../../../src/engine/schedules/blockSchedules.js';
import { durationOf, schedules } from '../../support/arbitraryRuns.js';
import type { Edge } from '../../support/droppedEdges.js';
import { randomSchedule } from '../../support/randomSchedule.js';
import { playSharing, type SharingSetup } from '../../support/sharingRun.js';
import type { SimulatedRow } from '../../support/simulatedRun.js';

/** Rows that begin alike, in slots of their own, whose pages come to a GPU. */
const rows: readonly SimulatedRow[] = Array.from({ length: 12 }, (_, i) => {
  const prompt = [...Array.from({ length: 9 + (i % 3) * 4 }, (__, at) => at), 1000 + i];
  return { prompt, promptTokens: prompt.length, newTokens: 2 + (i % 4) };
});
const setup = (seed: number, more: Partial<SharingSetup> = {}): SharingSetup => ({
  rows,
  schedule: diagonalBlock(),
  pageTokens: 4,
  pages: 60,
  slots: 4,
  rowsPerSlot: 2,
  tokensPerSquare: 8,
  window: 12,
  ahead: 12,
  ...more,
  fetched: { duration: durationOf(seed, 40), ...more.fetched },
});

describe('what rows share comes to the GPU', () => {
  test('for every row after it was stored, whatever the schedule, the chunks and how long tasks take', async () => {
    const given = fc.record({
      schedule: schedules,
      slots: fc.integer({ min: 1, max: 4 }),
      rowsPerSlot: fc.integer({ min: 1, max: 3 }),
      tokensPerSquare: fc.integer({ min: 3, max: 20 }),
      window: fc.integer({ min: 1, max: 12 }),
    });
    await fc.assert(
      fc.asyncProperty(given, fc.nat(), async (more, seed) => {
        await playSharing(setup(seed, more));
      }),
      { numRuns: 60 },
    );
  });

  test('without the stores of other slots the path is refused', async () => {
    const dropped: Edge = (earlier, later) =>
      earlier.name === 'store_cache' && later.name === 'load_cache' && earlier.batch.slot !== later.batch.slot;
    const duration = ({ name }: Task): number => (name === 'store_cache' ? 100 : 1);
    let refused = 0;
    // Rows of one beginning that come late, to slots of their own, while what it is in is stored.
    for (let pause = 0; pause < 24; pause++) {
      const late = setup(0, {
        rows: Array.from({ length: 9 }, (_, i) => {
          const prompt = [...Array.from({ length: 15 }, (__, at) => at), 100 + i];
          return { prompt, promptTokens: prompt.length, newTokens: 1 + ((3 * i) % 5) };
        }),
        schedule: pause % 2 === 0 ? diagonalBlock() : randomSchedule(pause),
        pages: 100,
        slots: 3,
        rowsPerSlot: 1,
        tokensPerSquare: 31,
        pauses: [0, pause % 8, pause],
      });
      await playSharing({ ...late, fetched: { duration } });
      await playSharing({ ...late, fetched: { duration, dropped } }).catch((error: unknown) => {
        expect(String(error)).toMatch(/load_cache from cpu starts before what it loads has been stored there/);
        refused++;
      });
    }
    expect(refused).toBeGreaterThan(2);
  });
});
