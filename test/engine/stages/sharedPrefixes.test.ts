import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { PeerError } from '../../../src/errors/PeerError.js';
import { TaskError } from '../../../src/errors/TaskError.js';
import { ALL_ON_CPU } from '../../../src/engine/memory/movement.js';
import { diagonalBlock } from '../../../src/engine/schedules/diagonalBlock.js';
import { rowByRow } from '../../../src/engine/schedules/rowByRow.js';
import { zigZagBlock } from '../../../src/engine/schedules/zigZagBlock.js';
import { defaultPipeline } from '../../../src/operators/defaultPipeline.js';
import { schedules } from '../../support/arbitraryRuns.js';
import { judgeResults } from '../../support/judgedRun.js';
import { runAndJudgeStages, settled, simulatedStages, type SimulatedStage, type StagesSetup } from '../../support/simulatedStages.js';
import type { SimulatedRow } from '../../support/simulatedRun.js';
import { treesOfRows } from '../../support/treesOfRows.js';

const PLACES = { placement: ALL_ON_CPU, aheads: { weights: 1, cache: 1, activations: 1 }, pipeline: defaultPipeline, sharePrefixes: true } as const;

/** Rows of a tree, their layers divided over two to four devices, which have pages for the longest row at least. */
const rings: fc.Arbitrary<StagesSetup> = fc
  .record({
    rows: treesOfRows,
    schedule: schedules,
    pageTokens: fc.integer({ min: 1, max: 6 }),
    morePages: fc.array(fc.nat(30), { minLength: 4, maxLength: 4 }),
    counts: fc.array(fc.integer({ min: 1, max: 2 }), { minLength: 2, maxLength: 4 }),
    slots: fc.integer({ min: 1, max: 3 }),
    rowsPerSlot: fc.integer({ min: 1, max: 4 }),
    tokensPerSquare: fc.integer({ min: 4, max: 24 }),
    window: fc.integer({ min: 1, max: 9 }),
    ahead: fc.integer({ min: 1, max: 12 }),
    linkCapacity: fc.integer({ min: 1, max: 3 }),
    pauses: fc.oneof(fc.constant([0]), fc.array(fc.nat(30), { minLength: 1, maxLength: 6 })),
  })
  .map(({ morePages, slots, rowsPerSlot, tokensPerSquare, ...given }) => {
    const least = Math.max(1, ...given.rows.map(({ promptTokens, newTokens }) => Math.ceil((promptTokens + newTokens) / given.pageTokens)));
    const [pages = least, ...laterPages] = morePages.map((more) => least + more);
    const layers = given.counts.reduce((sum, count) => sum + count, 0);
    return { ...PLACES, ...given, grid: { layers, slots, rowsPerSlot, tokensPerSquare }, pages, laterPages: laterPages.slice(0, given.counts.length - 1) };
  });

/** Positions of each stage's first layer that were computed. */
const computed = (stages: readonly SimulatedStage[]): number[] =>
  stages.map(({ contents, setup }) => [...contents.rows.values()].reduce((sum, row) => sum + (row.computed.get(setup.grid.part?.first ?? 0) ?? 0), 0));

describe('rows that share prefixes, their layers divided over simulated devices', () => {
  test('whatever they share, wherever the layers are cut: each sees its own tokens on every device, each path is valid, and all pages come back', async () => {
    await fc.assert(fc.asyncProperty(rings, async (given) => { await runAndJudgeStages(given); }), { numRuns: 250 });
  }, 120_000);

  test('whichever task fails, on whichever device: all end, and nothing is kept', async () => {
    await fc.assert(
      fc.asyncProperty(rings, fc.nat(3), fc.integer({ min: 1, max: 200 }), async (given, where, failing) => {
        const at = where % given.counts.length;
        let begun = 0;
        const { results, errors } = await settled(simulatedStages({ ...given, fail: (stage) => () => (stage === at && ++begun === failing ? 'it broke' : undefined) }));
        judgeResults(given.rows, results);
        if (begun < failing) expect(errors).toEqual(errors.map(() => undefined));
        else for (const error of errors) expect(error === undefined || error instanceof PeerError || error instanceof TaskError).toBe(true);
      }),
      { numRuns: 120 },
    );
  }, 60_000);

  test('whenever somebody unsubscribes: the others end well, and nothing is kept', async () => {
    await fc.assert(
      fc.asyncProperty(rings, fc.nat(200), async (given, turns) => {
        const { results, errors } = await settled(simulatedStages(given), turns);
        judgeResults(given.rows, results);
        expect(errors).toEqual(errors.map(() => undefined));
      }),
      { numRuns: 120 },
    );
  }, 60_000);

  const plenty = { ...PLACES, pageTokens: 4, pages: 10_000, counts: [1, 1, 2], grid: { layers: 4, slots: 2, rowsPerSlot: 8, tokensPerSquare: 400 }, window: 8, ahead: 64 };
  const shared = Array.from({ length: 101 }, (_, i) => i);
  const rowsOf = (count: number): SimulatedRow[] =>
    Array.from({ length: count }, (_, row) => ({ promptTokens: 107, newTokens: 3, prompt: [...shared, ...Array.from({ length: 6 }, (_, i) => 1000 + 50 * row + i)] }));

  test.each([diagonalBlock(), zigZagBlock(), rowByRow()])('$name: what all rows begin with is computed once, to the token, by each device', async (schedule) => {
    const stages = await runAndJudgeStages({ ...plenty, schedule, rows: rowsOf(40) });
    expect(computed(stages)).toEqual(stages.map(() => 101 + 40 * (6 + 2)));
  });

  test('what is kept for rows to come makes way on all devices where the poorest has no room', async () => {
    // One prefix after the other: that of the rows before is kept as long as there is room.
    const rows = Array.from({ length: 12 }, (_, row): SimulatedRow => {
      const prompt = Array.from({ length: 40 }, (_, i) => 1000 * Math.floor(row / 2) + i);
      return { promptTokens: 40, newTokens: 2, prompt };
    });
    const stages = await runAndJudgeStages({ ...plenty, schedule: rowByRow(), rows, pages: 100, laterPages: [14, 100], ahead: 2, pauses: [0, 300] });
    for (const { pool } of stages) expect(pool.peakUsed.memory).toBeLessThanOrEqual(14);
  });

  test('without sharing nothing is shared', async () => {
    const stages = await runAndJudgeStages({ ...plenty, sharePrefixes: false, schedule: diagonalBlock(), rows: rowsOf(10) });
    expect(computed(stages)).toEqual(stages.map(() => 10 * (107 + 2)));
  });
});
