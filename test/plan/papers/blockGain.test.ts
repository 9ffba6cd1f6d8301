import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { blockGain, peakCacheTokens } from '../../../src/plan/papers/blockGain.js';
import { diagonalBlock, zigZagBlock } from '../../../src/engine/schedules/blockSchedules.js';
import type { AdmittedRow, Schedule } from '../../../src/engine/schedules/Schedule.js';
import type { Grid, RowId } from '../../../src/engine/grid/Square.js';

/**
 * Plays a schedule whose rows come `perSweep` at a time; the tokens of cache that rows hold after each sweep, until the
 * last has come.
 */
function cacheTokens(schedule: Schedule, grid: Grid, rows: readonly AdmittedRow[], perSweep: number): number[] {
  let state = schedule.start(grid);
  const waiting = [...rows];
  const held = new Map<RowId, number>();
  const sizes: number[] = [];
  while (waiting.length > 0) {
    const { state: after, squares } = schedule.next(state, {
      admitted: waiting.splice(0, Math.min(perSweep, schedule.free(state, new Set()))),
      ended: new Set(),
    });
    state = after;
    for (const { batch, layer } of squares)
      if (layer === 0) for (const { row, firstPosition, tokens } of batch.rows) held.set(row, firstPosition + tokens);
    sizes.push([...held.values()].reduce((sum, tokens) => sum + tokens, 0));
    for (const { row, promptTokens, newTokens } of rows)
      if (held.get(row) === promptTokens + newTokens - 1) held.delete(row);
  }
  return sizes;
}

describe('peakCacheTokens', () => {
  test('is what blocks hold: zig-zag all at their longest, diagonal the average of a life', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 20 }),
        fc.integer({ min: 1, max: 12 }),
        fc.integer({ min: 1, max: 3 }),
        (promptTokens, newTokens, ofEachAge) => {
          const block = newTokens * ofEachAge;
          const rows = Array.from({ length: 4 * block }, (_, row) => ({ row, promptTokens, newTokens }));
          const grid = { layers: 1, slots: 1, rowsPerSlot: block, tokensPerSquare: block * promptTokens };
          const zigzag = cacheTokens(zigZagBlock(), grid, rows, block);
          expect(Math.max(...zigzag)).toBe(peakCacheTokens('zigzag', block, promptTokens, newTokens));
          // As many new rows a sweep as there are of each age: after a life's time the block is full and stays as it
          // is.
          const diagonal = cacheTokens(diagonalBlock(), grid, rows, ofEachAge).slice(newTokens - 1);
          expect(new Set(diagonal)).toEqual(new Set([peakCacheTokens('diagonal', block, promptTokens, newTokens)]));
        },
      ),
      { numRuns: 60 },
    );
  });

  test('gives the gain in rows for the same memory, up to terms of 1/n', () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 2000 }), fc.integer({ min: 1, max: 2000 }), (s, n) => {
        const ratio = peakCacheTokens('zigzag', 1, s, n) / peakCacheTokens('diagonal', 1, s, n);
        expect(Math.abs(ratio - blockGain(s, n))).toBeLessThanOrEqual(2 / n);
      }),
    );
    expect(blockGain(1, 1000)).toBeCloseTo(2, 2);
    expect(blockGain(1000, 1)).toBeCloseTo(1, 2);
  });
});
