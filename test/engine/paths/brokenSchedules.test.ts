import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { lastValueFrom, toArray } from 'rxjs';
import type { Schedule } from '../../../src/engine/schedules/Schedule.js';
import type { Grid, RowRange, Square } from '../../../src/engine/grid/Square.js';
import { ScheduleError, type PathConstraint } from '../../../src/errors/engineErrors.js';
import { runs } from '../../support/arbitraryRuns.js';
import { inTime, judgedRun } from '../../support/judgedRun.js';
import { tries } from '../../support/tries.js';

type Mutation = (square: Square, grid: Grid) => readonly Square[];

const withRows = ({ batch, layer }: Square, change: (rows: readonly RowRange[]) => readonly RowRange[]): Square[] => [
  { batch: { ...batch, rows: change(batch.rows) }, layer },
];
const withRange = (square: Square, change: (range: RowRange) => Partial<RowRange>): Square[] =>
  withRows(square, (rows) => rows.map((range, index) => (index === 0 ? { ...range, ...change(range) } : range)));

/** What is done to one square, and the constraints that this may break, whichever is met first. */
const mutations: readonly [string, Mutation, readonly PathConstraint[]][] = [
  ['dropped', () => [], ['left-neighbour', 'lifetime', 'capacity', 'complete']],
  ['doubled', (square) => [square, square], ['lifetime', 'complete']],
  [
    'in the layer above',
    (square) => [{ ...square, layer: square.layer + 1 }],
    ['left-neighbour', 'lifetime', 'complete'],
  ],
  ['in the layer below', (square) => [{ ...square, layer: square.layer - 1 }], ['left-neighbour', 'complete']],
  [
    'in another slot',
    ({ batch, layer }, { slots }) => [{ batch: { ...batch, slot: slots === 1 ? 1 : (batch.slot + 1) % slots }, layer }],
    ['left-neighbour', 'lifetime', 'capacity', 'complete'],
  ],
  [
    'a position late',
    (square) => withRange(square, ({ firstPosition }) => ({ firstPosition: firstPosition + 1 })),
    ['left-neighbour', 'complete'],
  ],
  [
    'a position early',
    (square) => withRange(square, ({ firstPosition }) => ({ firstPosition: firstPosition - 1 })),
    ['left-neighbour', 'complete'],
  ],
  [
    'a token long',
    (square) => withRange(square, ({ tokens }) => ({ tokens: tokens + 1 })),
    ['left-neighbour', 'lifetime', 'capacity', 'complete'],
  ],
  [
    'a token short',
    (square) => withRange(square, ({ tokens }) => ({ tokens: tokens - 1 })),
    ['left-neighbour', 'lifetime', 'complete'],
  ],
  [
    'with another head',
    (square) => withRange(square, ({ head }) => ({ head: head === 'sample' ? 'none' : 'sample' })),
    ['complete'],
  ],
  ['for a row that is not there', (square) => withRange(square, () => ({ row: 999 })), ['lifetime']],
  ['for one row twice', (square) => withRows(square, (rows) => [...rows, ...rows]), ['left-neighbour', 'capacity']],
];

/** A schedule, one of whose squares is not as it should be. */
function broken(schedule: Schedule, at: number, mutate: Mutation, grid: Grid, onMutated: () => void): Schedule {
  let count = 0;
  return {
    ...schedule,
    next: (state, observed) => {
      const { state: after, squares } = schedule.next(state, observed);
      return {
        state: after,
        squares: (function* () {
          for (const square of squares) {
            if (count++ !== at) yield square;
            else {
              onMutated();
              yield* mutate(square, grid);
            }
          }
        })(),
      };
    },
  };
}

describe('a schedule with one square that is', () => {
  test.each(mutations)(
    '%s is refused with the constraint, and everything is given back',
    async (_, mutate, constraints) => {
      let refused = 0;
      await fc.assert(
        fc.asyncProperty(runs, fc.nat(30), async (given, at) => {
          // With several layers and no early ends: elsewhere some of these mutants are valid schedules.
          const grid = { ...given.grid, layers: given.grid.layers + 1 };
          const rows = given.rows.map(({ promptTokens, newTokens }) => ({ promptTokens, newTokens }));
          let mutated = false;
          const judged = judgedRun({
            ...given,
            grid,
            rows,
            schedule: broken(given.schedule, at, mutate, grid, () => {
              mutated = true;
            }),
          });
          const outcome = await inTime(lastValueFrom(judged.results$.pipe(toArray()))).catch((error: unknown) => error);
          await inTime(judged.run.drained);
          expect(judged.pool.used).toEqual({ gpu: 0, memory: 0, disk: 0 });
          if (!mutated) return;
          refused++;
          expect(outcome).toBeInstanceOf(ScheduleError);
          if (outcome instanceof ScheduleError) expect(constraints).toContain(outcome.constraint);
        }),
        { numRuns: tries(30, 60) },
      );
      expect(refused).toBeGreaterThan(15);
    },
  );

  test('swapped with the next one of its slot is refused', async () => {
    let refused = 0;
    await fc.assert(
      fc.asyncProperty(runs, fc.nat(20), async (given, at) => {
        const grid = { ...given.grid, layers: given.grid.layers + 1, slots: 1 };
        const rows = given.rows.map(({ promptTokens, newTokens }) => ({ promptTokens, newTokens }));
        let held: Square | undefined;
        let count = 0;
        const swap = (schedule: Schedule): Schedule => ({
          ...schedule,
          next: (state, observed) => {
            const { state: after, squares } = schedule.next(state, observed);
            return {
              state: after,
              squares: (function* () {
                for (const square of squares) {
                  if (count++ === at) held = square;
                  else {
                    yield square;
                    if (count === at + 2 && held) yield held;
                  }
                }
              })(),
            };
          },
        });
        const judged = judgedRun({ ...given, grid, rows, schedule: swap(given.schedule) });
        const outcome = await inTime(lastValueFrom(judged.results$.pipe(toArray()))).catch((error: unknown) => error);
        await inTime(judged.run.drained);
        if (!held) return;
        refused++;
        expect(outcome).toBeInstanceOf(ScheduleError);
        if (outcome instanceof ScheduleError)
          expect(['left-neighbour', 'lifetime', 'complete']).toContain(outcome.constraint);
      }),
      { numRuns: tries(30, 60) },
    );
    expect(refused).toBeGreaterThan(15);
  });
});
