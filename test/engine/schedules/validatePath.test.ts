import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { lastValueFrom } from 'rxjs';
import type { TaskEvent } from '../../../src/engine/grid/Task.js';
import type { PathRecord } from '../../../src/engine/schedules/PathRecord.js';
import type { JudgedRow } from '../../../src/engine/schedules/PathChecker.js';
import { validatePath } from '../../../src/engine/schedules/validatePath.js';
import { defaultPipeline } from '../../../src/operators/defaultPipeline.js';
import { finishedRows } from '../../../src/operators/finishedRows.js';
import { squares } from '../../../src/operators/squares.js';
import { simulatedRun } from '../../support/simulatedRun.js';

const GRID = { layers: 3, slots: 2, rowsPerSlot: 2, tokensPerSquare: 6 };
const ROWS = [
  [3, 2],
  [9, 3],
  [1, 4],
  [2, 1],
  [5, 2],
].map(([promptTokens = 1, newTokens = 1]) => ({ promptTokens, newTokens }));
const ADMITTED = ROWS.map((row, index) => ({ row: index, ...row }));
const third = { gpu: 1 / 3, cpu: 1 / 3, disk: 1 / 3 };

async function trace(): Promise<readonly TaskEvent[]> {
  const { run, events } = simulatedRun({
    grid: GRID,
    rows: ROWS,
    placement: { weights: third, cache: third, activations: third },
    simulation: { duration: ({ name }) => (name === 'compute' ? 2 : 1) },
  });
  await lastValueFrom(squares(run).pipe(defaultPipeline(run), finishedRows(run)));
  return events;
}

describe('validatePath', () => {
  test('finds a real run in order, in whatever order its records are given', async () => {
    const events = await trace();
    validatePath(GRID, ADMITTED, events);
    fc.assert(
      fc.property(fc.shuffledSubarray([...events], { minLength: events.length }), (shuffled) => {
        validatePath(GRID, ADMITTED, shuffled);
      }),
      { numRuns: 20 },
    );
  });

  test('takes a layer in one task for its three, once and without them', async () => {
    const events = await trace();
    const joined = events.flatMap(({ task, timing }): PathRecord[] => {
      if (task.part === 'attend' || task.part === 'finish') return [];
      return [{ task: task.part === 'project' ? { ...task, part: 'layer' } : task, timing }];
    });
    validatePath(GRID, ADMITTED, joined);
    const [layer] = joined.filter(({ task }) => task.part === 'layer');
    const [attend] = events.filter(({ task }) => task.part === 'attend');
    if (!layer || !attend) throw new Error('a trace without computes');
    for (const more of [layer, attend])
      expect(() => {
        validatePath(GRID, ADMITTED, [...joined, more]);
      }).toThrow(/second time|not for this layer/);
  });

  test('notices any square that is missing', async () => {
    const events = await trace();
    const key = ({ task }: PathRecord): string => `${task.batch.pass} ${task.layer} ${task.batch.slot}`;
    for (const one of new Set(events.map(key))) {
      expect(() => {
        validatePath(
          GRID,
          ADMITTED,
          events.filter((event) => key(event) !== one),
        );
      }).toThrow(/left-neighbour|lifetime|complete/);
    }
  });

  test('notices any compute that starts before its loads or its left neighbour have ended', async () => {
    const events = await trace();
    const early = (at: number, start: number): PathRecord[] =>
      events.map(({ task, timing }, index) => ({
        task,
        timing: index === at && timing ? { start, end: timing.end } : timing,
      }));
    events.forEach(({ task, timing }, index) => {
      // Everything but the first layer of the first pass has a left neighbour, and that has its loads, none of which
      // end at 0.
      if (task.name !== 'compute' || !timing) return;
      expect(() => {
        validatePath(GRID, ADMITTED, early(index, 0));
      }).toThrow(/inputs-on-device|left-neighbour/);
    });
  });

  test('notices a task that did not complete', async () => {
    const [first, ...others] = await trace();
    if (!first) throw new Error('an empty trace');
    expect(() => {
      validatePath(GRID, ADMITTED, [{ task: first.task, timing: undefined }, ...others]);
    }).toThrow(/has not completed/);
  });

  test('a row that ended early may be incomplete, any other may not', async () => {
    const events = await trace();
    const longer = ADMITTED.map((row) => (row.row === 1 ? { ...row, newTokens: 9 } : row));
    expect(() => {
      validatePath(GRID, longer, events);
    }).toThrow(/row 1 lacks 6 positions/);
    validatePath(GRID, longer, events, new Set([1]));
  });
});

describe('validatePath, of rows that share', () => {
  const grid = { layers: 2, slots: 2, rowsPerSlot: 1, tokensPerSquare: 128 };
  const rows: readonly JudgedRow[] = [
    { row: 0, promptTokens: 97, newTokens: 1 },
    { row: 1, promptTokens: 97, newTokens: 1, shared: [{ row: 0, end: 96 }] },
  ];
  /** A square of one row, all of what it has to compute, and when it was computed. */
  const compute = (row: number, pass: number, layer: number, start: number, end = start + 1): PathRecord => {
    const firstPosition = row === 0 ? 0 : 96;
    return {
      task: {
        name: 'compute',
        batch: { pass, slot: row, rows: [{ row, firstPosition, tokens: 97 - firstPosition, head: 'sample' }] },
        layer,
      },
      timing: { start, end },
    };
  };

  test('accepts a layer of a row that begins behind what another one has computed of it, in whatever pass', () => {
    validatePath(grid, rows, [compute(0, 0, 0, 0), compute(0, 0, 1, 1), compute(1, 1, 0, 2), compute(1, 1, 1, 3)]);
    validatePath(grid, rows, [compute(0, 0, 0, 0), compute(0, 0, 1, 1), compute(1, 1, 0, 1), compute(1, 1, 1, 2)]);
  });

  test('refuses a trace whose row reads a layer that comes in a later pass', () => {
    // The first layer of row 0, then all of row 1, then what row 0 lacks.
    const early = [compute(0, 0, 0, 0), compute(1, 1, 0, 1), compute(1, 1, 1, 2), compute(0, 0, 1, 3)];
    expect(() => {
      validatePath(grid, rows, early);
    }).toThrow(
      /left-neighbour.*row 1, layer 1, positions 96 to 96: shares positions up to 95 of row 0, which has computed 0 in this layer/,
    );
    const alone = early.filter(({ task }) => task.batch.slot === 1);
    expect(() => {
      validatePath(grid, rows.slice(1), alone);
    }).toThrow(/left-neighbour/);
  });

  test('refuses a trace whose row begins while what it shares is being computed', () => {
    const overlapping = [compute(0, 0, 0, 0), compute(0, 0, 1, 1, 4), compute(1, 1, 0, 2), compute(1, 1, 1, 3)];
    expect(() => {
      validatePath(grid, rows, overlapping);
    }).toThrow(/row 1 starts before row 0 has computed what they share/);
  });

  test('what a source goes on to compute besides is nothing to its sharers', () => {
    const [source, sharer] = rows;
    if (!source || !sharer) throw new Error('two rows');
    const decode = (layer: number, start: number, end: number): PathRecord => ({
      task: {
        name: 'compute',
        batch: { pass: 1, slot: 0, rows: [{ row: 0, firstPosition: 97, tokens: 1, head: 'sample' }] },
        layer,
      },
      timing: { start, end },
    });
    validatePath(
      grid,
      [{ ...source, newTokens: 2 }, sharer],
      [
        compute(0, 0, 0, 0),
        compute(0, 0, 1, 1),
        decode(0, 2, 9),
        compute(1, 1, 0, 3),
        compute(1, 1, 1, 4),
        decode(1, 10, 11),
      ],
    );
  });
});
