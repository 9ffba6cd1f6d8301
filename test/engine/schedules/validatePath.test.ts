import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { lastValueFrom } from 'rxjs';
import type { TaskEvent } from '../../../src/engine/execution/Task.js';
import type { PathRecord } from '../../../src/engine/schedules/PathRecord.js';
import { validatePath } from '../../../src/engine/schedules/validatePath.js';
import { defaultPipeline } from '../../../src/operators/defaultPipeline.js';
import { finishedRows } from '../../../src/operators/finishedRows.js';
import { squares } from '../../../src/operators/squares.js';
import { simulatedRun } from '../../support/simulatedRun.js';

const GRID = { layers: 3, slots: 2, rowsPerSlot: 2, tokensPerSquare: 6 };
const ROWS = [[3, 2], [9, 3], [1, 4], [2, 1], [5, 2]].map(([promptTokens = 1, newTokens = 1]) => ({ promptTokens, newTokens }));
const ADMITTED = ROWS.map((row, index) => ({ row: index, ...row }));
const third = { gpu: 1 / 3, cpu: 1 / 3, disk: 1 / 3 };

async function trace(): Promise<readonly TaskEvent[]> {
  const { run, events } = simulatedRun({
    grid: GRID, rows: ROWS, placement: { weights: third, cache: third, activations: third }, simulation: { duration: ({ name }) => (name === 'compute' ? 2 : 1) },
  });
  await lastValueFrom(squares(run).pipe(defaultPipeline(run), finishedRows(run)));
  return events;
}

describe('validatePath', () => {
  test('finds a real run in order, in whatever order its records are given', async () => {
    const events = await trace();
    validatePath(GRID, ADMITTED, events);
    fc.assert(fc.property(fc.shuffledSubarray([...events], { minLength: events.length }), (shuffled) => { validatePath(GRID, ADMITTED, shuffled); }), { numRuns: 20 });
  });

  test('notices any square that is missing', async () => {
    const events = await trace();
    const key = ({ task }: PathRecord): string => `${task.pass} ${task.layer} ${task.slot}`;
    for (const one of new Set(events.map(key))) {
      expect(() => { validatePath(GRID, ADMITTED, events.filter((event) => key(event) !== one)); }).toThrow(/left-neighbour|lifetime|complete/);
    }
  });

  test('notices any compute that starts before its loads or its left neighbour have ended', async () => {
    const events = await trace();
    const early = (at: number, start: number): PathRecord[] => events.map(({ task, timing }, index) => ({ task, timing: index === at && timing ? { start, end: timing.end } : timing }));
    events.forEach(({ task, timing }, index) => {
      // Everything but the first layer of the first pass has a left neighbour, and that has its loads, none of which end at 0.
      if (task.name !== 'compute' || !timing) return;
      expect(() => { validatePath(GRID, ADMITTED, early(index, 0)); }).toThrow(/inputs-on-device|left-neighbour/);
    });
  });

  test('notices a task that did not complete', async () => {
    const [first, ...others] = await trace();
    if (!first) throw new Error('an empty trace');
    expect(() => { validatePath(GRID, ADMITTED, [{ task: first.task, timing: undefined }, ...others]); }).toThrow(/has not completed/);
  });

  test('a row that ended early may be incomplete, any other may not', async () => {
    const events = await trace();
    const longer = ADMITTED.map((row) => (row.row === 1 ? { ...row, newTokens: 9 } : row));
    expect(() => { validatePath(GRID, longer, events); }).toThrow(/row 1 lacks 6 positions/);
    validatePath(GRID, longer, events, new Set([1]));
  });
});
