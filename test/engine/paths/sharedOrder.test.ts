import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { diagonalBlock, rowByRow, zigZagBlock } from '../../../src/engine/schedules/blockSchedules.js';
import { admissions, computed, openSharing, playSharing, type SharingSetup } from '../../support/sharingRun.js';
import type { SimulatedRow } from '../../support/simulatedRun.js';
import { tries } from '../../support/tries.js';

const SCHEDULES = [diagonalBlock(), zigZagBlock(), rowByRow()];
const SETUP = {
  schedule: diagonalBlock(),
  pageTokens: 4,
  pages: 10_000,
  slots: 1,
  rowsPerSlot: 8,
  tokensPerSquare: 400,
  window: 8,
  ahead: 200,
};

/** A row that begins with a document, if it has one, and goes on with tokens that are its own. */
function rowOf(
  index: number,
  document: number | undefined,
  documentTokens: number,
  newTokens = 3,
  own = 2,
): SimulatedRow {
  const begin =
    document === undefined ? [] : Array.from({ length: documentTokens }, (_, i) => 1000 * (document + 1) + i);
  const prompt = [...begin, ...Array.from({ length: own }, (_, i) => 1_000_000 + 100 * index + i)];
  return { prompt, promptTokens: prompt.length, newTokens };
}

/** Of each admission, the document that it begins with. */
const documents = (prompts: readonly (readonly number[])[]): number[] =>
  prompts.map(([first = 0]) => (first < 1_000_000 ? Math.floor(first / 1000) - 1 : -1));
const passes = async (setup: SharingSetup): Promise<number> =>
  new Set((await playSharing(setup)).events.map(({ task }) => task.batch.pass)).size;

describe('rows that begin alike come in together', () => {
  // Every question is asked of every document before the next one is.
  const [DOCUMENTS, QUESTIONS, LENGTH] = [8, 8, 40];
  const questionMajor = Array.from({ length: DOCUMENTS * QUESTIONS }, (_, i) => rowOf(i, i % DOCUMENTS, LENGTH));
  const once = DOCUMENTS * LENGTH + questionMajor.length * (2 + 2);

  test.each(SCHEDULES)('$name: whatever the order of the input, each document is computed once', async (schedule) => {
    const { contents } = await playSharing({ ...SETUP, schedule, rows: questionMajor });
    expect(computed(contents())).toBe(once);
  });

  test.each(SCHEDULES)('$name: also where memory holds few of them', async (schedule) => {
    // A document takes ten pages, and each of its rows one more.
    for (const pages of [19, 24]) {
      const { contents } = await playSharing({ ...SETUP, schedule, pages, rows: questionMajor });
      expect(computed(contents())).toBe(once);
    }
  });

  test('one document after the other, in the order in which they came', async () => {
    const { contents } = await playSharing({ ...SETUP, pages: 19, rows: questionMajor });
    expect(documents(admissions(contents()))).toEqual(
      Array.from({ length: DOCUMENTS }, (_, document) => new Array<number>(QUESTIONS + 1).fill(document)).flat(),
    );
  });

  test('as far as they are known: a look-ahead of as many rows as there are places brings together no more than that', async () => {
    const { contents } = await playSharing({ ...SETUP, pages: 19, ahead: 8, rows: questionMajor });
    expect(computed(contents())).toBeGreaterThan(once);
  });

  test('rows with little in common come in as they arrive', async () => {
    const rows = Array.from({ length: 60 }, (_, i): SimulatedRow => {
      // They begin with the same token, and then with one of three.
      const prompt = [1, i % 3, ...Array.from({ length: 9 }, (__, at) => 100 * i + at)];
      return { prompt, promptTokens: prompt.length, newTokens: 1 + (i % 5) };
    });
    for (const pageTokens of [4, 32]) {
      const { contents } = await playSharing({ ...SETUP, pageTokens, rows });
      expect(admissions(contents()).filter(({ length }) => length === 11)).toEqual(rows.map(({ prompt }) => prompt));
    }
  });
});

describe('no row is passed by more than may wait', () => {
  test.each(SCHEDULES)(
    '$name: one with nothing in common comes in although others always have more',
    async (schedule) => {
      const ahead = 12;
      const rows = Array.from({ length: 200 }, (_, i) => rowOf(i, i === 20 || i === 23 ? undefined : 0, 40));
      const { contents } = await playSharing({ ...SETUP, schedule, rowsPerSlot: 2, ahead, rows });
      const order = documents(admissions(contents()));
      const strangers = order.flatMap((document, at) => (document < 0 ? [at] : []));
      expect(strangers).toHaveLength(2);
      // It arrived after twenty, of which at least some were through.
      for (const at of strangers) expect(at).toBeLessThanOrEqual(23 + ahead + 2);
    },
  );

  test('whatever rows there are, each comes in before more than may wait have passed it', async () => {
    const rows = fc
      .array(fc.tuple(fc.option(fc.nat(3), { nil: undefined }), fc.integer({ min: 1, max: 6 })), {
        minLength: 1,
        maxLength: 60,
      })
      .map((picks) => picks.map(([document, newTokens], i) => rowOf(i, document, 24, newTokens)));
    await fc.assert(
      fc.asyncProperty(
        rows,
        fc.constantFrom(...SCHEDULES),
        fc.integer({ min: 1, max: 9 }),
        fc.integer({ min: 1, max: 4 }),
        async (given, schedule, ahead, rowsPerSlot) => {
          const { contents } = await playSharing({ ...SETUP, schedule, rowsPerSlot, ahead, rows: given });
          const order = admissions(contents())
            .flatMap((tokens) => given.findIndex(({ prompt }) => prompt === tokens))
            .filter((index) => index >= 0);
          for (const [at, index] of order.entries()) {
            const passedBy = order.slice(0, at).filter((other) => other > index).length;
            expect(passedBy).toBeLessThanOrEqual(2 * ahead);
          }
        },
      ),
      { numRuns: tries(34, 100) },
    );
  });
});

describe('sharing costs no passes', () => {
  const rows = (shares: (index: number) => boolean): SimulatedRow[] =>
    Array.from({ length: 16 }, (_, i) => rowOf(i, shares(i) ? 0 : undefined, 60, 12, shares(i) ? 1 : 61));
  test.each(SCHEDULES)('$name: rows that wait for their beginning join the same block', async (schedule) => {
    const setup = { ...SETUP, schedule, rowsPerSlot: 16, tokensPerSquare: 200 };
    for (const shares of [(index: number) => index % 2 === 0, () => true]) {
      const given = rows(shares);
      const apart = await passes({ ...setup, rows: given, sharePrefixes: false });
      expect(await passes({ ...setup, rows: given })).toBeLessThanOrEqual(apart);
    }
  });

  test('two levels of beginnings come before the block, one after the other', async () => {
    const levels = Array.from({ length: 32 }, (_, i): SimulatedRow => {
      const prompt = [
        ...Array.from({ length: 60 }, (__, at) => at),
        ...Array.from({ length: 60 }, (__, at) => 1000 * (i % 4) + at),
        5000 + i,
      ];
      return { prompt, promptTokens: prompt.length, newTokens: 20 };
    });
    const { contents, events } = await playSharing({
      ...SETUP,
      schedule: zigZagBlock(),
      rowsPerSlot: 32,
      tokensPerSquare: 512,
      rows: levels,
    });
    expect(computed(contents())).toBe(60 + 4 * 60 + 32 * (1 + 19));
    expect(new Set(events.map(({ task }) => task.batch.pass)).size).toBe(1 + 1 + 20);
  });
});

describe('what many rows begin with is kept', () => {
  test('for rows that come one by one, with others in between', async () => {
    const rows = Array.from({ length: 12 }, (_, i) => rowOf(i, i % 3 === 0 ? 0 : undefined, 90, 2, 6));
    const { contents } = await playSharing({ ...SETUP, rows, pauses: [400] });
    expect(computed(contents())).toBe(90 + 12 * (6 + 1));
  });

  test('but makes way where memory is short', async () => {
    const rows = Array.from({ length: 12 }, (_, i) =>
      i % 3 === 0 ? rowOf(i, 0, 40, 2, 6) : rowOf(i, undefined, 0, 2, 70),
    );
    // Hardly more than one of the longest.
    const { pool } = await playSharing({ ...SETUP, pages: 19, rows, pauses: [400] });
    expect(pool.peakUsed.memory).toBeLessThanOrEqual(19);
  });
});

/**
 * One beginning, hardly more memory than a row or two take, answers of any length: who comes in counts on what others
 * will give back.
 */
const scarce: fc.Arbitrary<SharingSetup> = fc
  .record({
    head: fc.integer({ min: 4, max: 40 }),
    picks: fc.array(
      fc.record({
        begins: fc.boolean(),
        own: fc.integer({ min: 1, max: 6 }),
        newTokens: fc.integer({ min: 1, max: 60 }),
      }),
      { minLength: 3, maxLength: 9 },
    ),
    morePages: fc.nat(8),
    rowsPerSlot: fc.integer({ min: 2, max: 4 }),
    tokensPerSquare: fc.constantFrom(8, 16, 200),
    ahead: fc.integer({ min: 1, max: 5 }),
    pauses: fc.array(fc.nat(40), { minLength: 1, maxLength: 4 }),
  })
  .map(({ head, picks, morePages, ...given }) => {
    const rows = picks.map(({ begins, own, newTokens }, i) => rowOf(i, begins ? 0 : undefined, head, newTokens, own));
    const longest = Math.max(
      ...rows.map(({ promptTokens, newTokens }) => Math.ceil((promptTokens + newTokens - 1) / 4)),
    );
    return { ...SETUP, ...given, rows, pages: longest + morePages };
  });

test('rows that become known late, with long answers, find the pages they grow into', async () => {
  await fc.assert(
    fc.asyncProperty(scarce, async (setup) => {
      await playSharing(setup);
    }),
    { numRuns: tries(50, 150) },
  );
});

test('what waits when a run is broken off waits no more', async () => {
  const { run, nothingLeft, results$ } = openSharing({
    ...SETUP,
    rowsPerSlot: 2,
    rows: Array.from({ length: 40 }, (_, i) => rowOf(i, i % 3, 40)),
  });
  const subscription = results$.subscribe();
  for (let turn = 0; turn < 20; turn++) await new Promise((resolve) => setImmediate(resolve));
  subscription.unsubscribe();
  await run.drained;
  nothingLeft();
});
