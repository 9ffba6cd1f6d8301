import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { lastValueFrom, toArray } from 'rxjs';
import { patientStores, shortestFirst } from '../../examples/03-custom-schedule.js';
import { diagonalBlock, zigZagBlock } from '../../src/engine/schedules/blockSchedules.js';
import { finishedRows } from '../../src/operators/finishedRows.js';
import { squares } from '../../src/operators/squares.js';
import { simulatedRun, type SimulatedRow } from '../support/simulatedRun.js';

const rows = fc.array(
  fc.record({ promptTokens: fc.integer({ min: 1, max: 40 }), newTokens: fc.integer({ min: 1, max: 12 }) }),
  { minLength: 1, maxLength: 30 },
);
const grid = fc.record({
  layers: fc.integer({ min: 1, max: 4 }),
  slots: fc.integer({ min: 1, max: 3 }),
  rowsPerSlot: fc.integer({ min: 1, max: 4 }),
  tokensPerSquare: fc.integer({ min: 4, max: 32 }),
});

/** Runs in virtual time; the run itself refuses a square that breaks a path. */
async function finishing(
  setup: Parameters<typeof simulatedRun>[0],
): Promise<readonly { index: number; tokens: readonly number[] }[]> {
  const { run } = simulatedRun(setup);
  return lastValueFrom(squares(run).pipe(patientStores(run), finishedRows(run), toArray()));
}

describe('the schedule and pipeline of the third example', () => {
  test.each([
    ['diagonal', diagonalBlock()],
    ['zigzag', zigZagBlock()],
  ])('over %s: every row gets all of its tokens, whatever the grid', async (_, inner) => {
    await fc.assert(
      fc.asyncProperty(rows, grid, fc.integer({ min: 0, max: 9 }), async (input, shape, lookAhead) => {
        const results = await finishing({
          grid: shape,
          rows: input,
          schedule: shortestFirst(inner, lookAhead),
          ahead: shape.slots * shape.rowsPerSlot + lookAhead,
        });
        const lengths = results.toSorted((a, b) => a.index - b.index).map(({ tokens }) => tokens.length);
        expect(lengths).toEqual(input.map(({ newTokens }) => newTokens));
      }),
      { numRuns: 60 },
    );
  });

  test('starts short rows before long ones', async () => {
    const long: SimulatedRow = { promptTokens: 30, newTokens: 10 };
    const short: SimulatedRow = { promptTokens: 2, newTokens: 2 };
    const shape = { layers: 2, slots: 1, rowsPerSlot: 1, tokensPerSquare: 8 };
    const order = await finishing({
      grid: shape,
      rows: [long, long, short, short],
      schedule: shortestFirst(diagonalBlock(), 3),
      ahead: 4,
    });
    // Whichever row was there before the others may have started, but a long one does not hold up both short ones.
    expect(order.at(-1)?.index).toBeLessThan(2);
  });
});
