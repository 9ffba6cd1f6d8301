import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import type { Schedule } from '../../../src/engine/schedules/Schedule.js';
import type { Square } from '../../../src/engine/grid/Square.js';
import { diagonalBlock, rowByRow, zigZagBlock } from '../../../src/engine/schedules/blockSchedules.js';
import { schedules } from '../../support/arbitraryRuns.js';
import { inTime, judgeResults } from '../../support/judgedRun.js';
import { layerwiseSchedule } from '../../support/layerwiseSchedule.js';
import { randomSchedule } from '../../support/randomSchedule.js';
import { treesOfRows } from '../../support/treesOfRows.js';
import { computed, LAYERS, openSharing, playSharing, type SharingSetup } from '../../support/sharingRun.js';
import type { SimulatedResult, SimulatedRow } from '../../support/simulatedRun.js';
import { tries } from '../../support/tries.js';

const setups: fc.Arbitrary<SharingSetup> = fc
  .record({
    rows: treesOfRows,
    schedule: fc.oneof({ weight: 4, arbitrary: schedules }, { weight: 1, arbitrary: fc.nat().map(layerwiseSchedule) }),
    pageTokens: fc.integer({ min: 1, max: 6 }),
    morePages: fc.nat(30),
    slots: fc.integer({ min: 1, max: 3 }),
    rowsPerSlot: fc.integer({ min: 1, max: 4 }),
    tokensPerSquare: fc.integer({ min: 4, max: 24 }),
    window: fc.integer({ min: 1, max: 9 }),
    ahead: fc.integer({ min: 1, max: 12 }),
    pauses: fc.option(fc.array(fc.nat(30), { maxLength: 6 }), { nil: undefined }),
  })
  .map(({ morePages, pauses, ...setup }) => ({
    ...setup,
    ...(pauses && { pauses }),
    pages:
      morePages +
      Math.max(
        1,
        ...setup.rows.map(({ promptTokens, newTokens }) => Math.ceil((promptTokens + newTokens) / setup.pageTokens)),
      ),
  }));

describe('rows that share prefixes', () => {
  test('whatever they share, in any order, memory and schedule: each sees its own tokens, and all pages come back', async () => {
    await fc.assert(
      fc.asyncProperty(setups, async (setup) => {
        await playSharing(setup);
      }),
      { numRuns: tries(167, 500) },
    );
  });

  test('wherever a task fails or somebody unsubscribes, all pages come back', async () => {
    await fc.assert(
      fc.asyncProperty(setups, fc.nat(200), fc.boolean(), async (setup, after, fails) => {
        let submitted = 0;
        const opened = openSharing(setup, fails ? () => (++submitted > after ? 'it broke' : undefined) : undefined);
        const results: SimulatedResult[] = [];
        await inTime(
          new Promise<void>((resolve) => {
            const subscription = opened.results$.subscribe({
              next: (result) => results.push(result),
              error: () => {
                resolve();
              },
              complete: resolve,
            });
            const wait = (turns: number): void => {
              if (turns > 0)
                setImmediate(() => {
                  wait(turns - 1);
                });
              else {
                subscription.unsubscribe();
                resolve();
              }
            };
            if (!fails) wait(after);
          }),
        );
        await inTime(opened.run.drained);
        judgeResults(setup.rows, results);
        expect(opened.contents().wrong).toEqual([]);
        opened.nothingLeft();
      }),
      { numRuns: tries(67, 200) },
    );
  });

  const plenty = { pageTokens: 4, pages: 10_000, slots: 2, rowsPerSlot: 8, tokensPerSquare: 400, window: 8, ahead: 64 };
  const shared = Array.from({ length: 101 }, (_, i) => i);
  const rowsOf = (count: number, own: number): SimulatedRow[] =>
    Array.from({ length: count }, (_, row) => ({
      promptTokens: 101 + own,
      newTokens: 3,
      prompt: [...shared, ...Array.from({ length: own }, (_, i) => 1000 + 50 * row + i)],
    }));

  test.each([diagonalBlock(), zigZagBlock(), rowByRow()])(
    '$name: what all rows begin with is computed once, to the token',
    async (schedule) => {
      const { contents, saved } = await playSharing({ ...plenty, schedule, rows: rowsOf(40, 6) });
      expect(computed(contents())).toBe(101 + 40 * (6 + 2));
      expect(saved()).toBe(39 * 101);
    },
  );

  test('a tree of two levels, in any order: every token of it once', async () => {
    const rows = Array.from({ length: 64 }, (_, i) => {
      const [system, document, question] = [i % 2, i % 8, i];
      const prompt = [
        ...Array.from({ length: 37 }, (_, t) => 100 * system + t),
        ...Array.from({ length: 30 }, (_, t) => 1000 + 100 * document + t),
        ...Array.from({ length: 5 }, (_, t) => 10_000 + 10 * question + t),
      ];
      return { promptTokens: prompt.length, newTokens: 2, prompt };
    });
    const { contents } = await playSharing({ ...plenty, schedule: diagonalBlock(), rows });
    expect(computed(contents())).toBe(2 * 37 + 8 * 30 + 64 * (5 + 1));
  });

  test('equal prompts compute all but their last token once', async () => {
    const rows = Array.from({ length: 20 }, () => ({ promptTokens: 101, newTokens: 1, prompt: shared }));
    const { contents } = await playSharing({ ...plenty, schedule: diagonalBlock(), rows });
    expect(computed(contents())).toBe(100 + 20);
  });

  test('rows that come one by one share what those before them have computed, also when none of these is left', async () => {
    const { contents } = await playSharing({ ...plenty, schedule: diagonalBlock(), rows: rowsOf(6, 6), pauses: [400] });
    expect(computed(contents())).toBe(101 + 6 * (6 + 2));
  });

  test('little in common is not waited for', async () => {
    const rows = Array.from({ length: 8 }, (_, row) => ({
      promptTokens: 12,
      newTokens: 2,
      prompt: [1, 2, 3, 4, 5, ...Array.from({ length: 7 }, (_, i) => 100 * row + i)],
    }));
    const { contents } = await playSharing({ ...plenty, schedule: diagonalBlock(), rows });
    expect(contents().rows.size).toBe(8);
  });

  test('it holds memory once: so many rows fit as have room beside one copy', async () => {
    const opened = await playSharing({ ...plenty, pages: 26 + 16 * 3, schedule: diagonalBlock(), rows: rowsOf(40, 6) });
    expect(opened.pool.peakUsed.memory).toBeLessThanOrEqual(26 + 16 * 3);
    expect(computed(opened.contents())).toBe(101 + 40 * (6 + 2));
  });

  test('a page that is being copied when nobody is known any more who begins so is found again by who comes then', async () => {
    // Pages of two tokens: row 3 copies one token of row 0's first page, while rows 1 and 2 end; row 4 begins with all
    // of that page.
    const rows = [[0, 1, 2, 3, 10], [1000, 10, 11, 12, 13, 14], [10], [0, 10], [0, 1, 10]].map((prompt) => ({
      prompt,
      promptTokens: prompt.length,
      newTokens: 1,
    }));
    for (let seed = 0; seed < 40; seed++)
      await playSharing({
        rows,
        schedule: randomSchedule(seed),
        pageTokens: 2,
        slots: 2,
        rowsPerSlot: 2,
        tokensPerSquare: 4,
        window: 2,
        ahead: 2,
        pauses: [4, 3, 25, 25],
        pages: 6,
      });
  });

  test('a page is not to be had before its batch has been issued in every layer, whatever a schedule leaves for later', async () => {
    // The first layer of the first row; then all of the second row, which begins alike; then what is left of the first.
    const lazy: Schedule<readonly Square[] | undefined> = {
      name: 'lazy',
      start: () => undefined,
      free: (left) => (left?.length === 0 ? 0 : 1),
      next: (left, { admitted: [row] }) => {
        if (!row) return { state: [], squares: left ?? [] };
        const slot = left ? 1 : 0;
        const rows = [{ row: row.row, firstPosition: 0, tokens: row.promptTokens, head: 'sample' as const }];
        const batch = { pass: slot, slot, rows };
        const squares = Array.from({ length: LAYERS }, (_, layer): Square => ({ batch, layer }));
        return left
          ? { state: [], squares: [...squares, ...left] }
          : { state: squares.slice(1), squares: squares.slice(0, 1) };
      },
    };
    const rows = [7, 9].map((last) => ({ prompt: [...shared.slice(0, 96), last], promptTokens: 97, newTokens: 1 }));
    const { contents, saved } = await playSharing({ ...plenty, rowsPerSlot: 1, schedule: lazy, rows });
    expect([saved(), computed(contents())]).toEqual([0, 2 * 97]);
  });

  test('without sharing nothing is shared', async () => {
    const { contents, saved } = await playSharing({
      ...plenty,
      sharePrefixes: false,
      schedule: diagonalBlock(),
      rows: rowsOf(10, 6),
    });
    expect(computed(contents())).toBe(10 * (107 + 2));
    expect(saved()).toBe(0);
  });
});
