import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { TaskError } from '../../../src/errors/engineErrors.js';
import { InterruptedError } from '../../../src/errors/InterruptedError.js';
import { diagonalBlock, rowByRow, zigZagBlock } from '../../../src/engine/schedules/blockSchedules.js';
import { durationOf } from '../../support/arbitraryRuns.js';
import { inTime } from '../../support/judgedRun.js';
import { randomSchedule } from '../../support/randomSchedule.js';
import {
  simulatedCalls,
  tokenOf,
  type CallRow,
  type SimulatedCall,
  type SimulatedCalls,
} from '../../support/simulatedCalls.js';
import { tries } from '../../support/tries.js';

const LONGEST_PROMPT = 16;
const MOST_NEW = 10;

const turns = async (count: number): Promise<void> => {
  for (let turn = 0; turn < count; turn++) await new Promise((resolve) => setImmediate(resolve));
};

const callRow: fc.Arbitrary<CallRow> = fc.record({
  promptTokens: fc.integer({ min: 2, max: LONGEST_PROMPT }),
  newTokens: fc.oneof(
    { weight: 6, arbitrary: fc.integer({ min: 1, max: MOST_NEW }) },
    { weight: 1, arbitrary: fc.constant(0) },
  ),
  endsAfter: fc.oneof(fc.constant(Infinity), fc.integer({ min: 1, max: MOST_NEW })),
  commonTokens: fc.constantFrom(0, 0, 4, 9),
});

/** How a call ends before its rows do. */
const end = fc.oneof(
  { weight: 4, arbitrary: fc.constant({ kind: 'well' as const, after: 0 }) },
  {
    weight: 3,
    arbitrary: fc.record({
      kind: fc.constantFrom('leaves' as const, 'aborts' as const, 'throws' as const, 'source fails' as const),
      after: fc.nat(80),
    }),
  },
);

const setups = fc.record({
  grid: fc.record({
    layers: fc.integer({ min: 1, max: 3 }),
    slots: fc.integer({ min: 1, max: 3 }),
    rowsPerSlot: fc.integer({ min: 1, max: 3 }),
    tokensPerSquare: fc.integer({ min: 3, max: 9 }),
  }),
  schedule: fc.oneof(
    { weight: 4, arbitrary: fc.constant(diagonalBlock) },
    { weight: 1, arbitrary: fc.constantFrom(zigZagBlock, rowByRow) },
    { weight: 1, arbitrary: fc.nat().map((seed) => () => randomSchedule(seed)) },
  ),
  pageTokens: fc.integer({ min: 1, max: 5 }),
  morePages: fc.nat(20),
  window: fc.integer({ min: 1, max: 10 }),
  seed: fc.nat(),
  longest: fc.nat(6),
  burst: fc.integer({ min: 1, max: 5 }),
  calls: fc.array(
    fc.record({
      rows: fc.array(callRow, { maxLength: 8 }),
      priority: fc.constantFrom(0, 0, 0, 1, -2),
      sharePrefixes: fc.boolean(),
      ahead: fc.integer({ min: 1, max: 6 }),
      pause: fc.constantFrom(0, 0, 3, 20),
      after: fc.nat(60),
      end,
    }),
    { minLength: 1, maxLength: 5 },
  ),
});

function calls(
  given: Omit<typeof setups extends fc.Arbitrary<infer Setup> ? Setup : never, 'calls'>,
  fail?: number,
): SimulatedCalls {
  let begun = 0;
  return simulatedCalls({
    ...given,
    pages: Math.ceil((LONGEST_PROMPT + MOST_NEW - 1) / given.pageTokens) + given.morePages,
    simulation: {
      burst: given.burst,
      duration: durationOf(given.seed, given.longest),
      ...(fail !== undefined && { fail: () => (++begun === fail ? 'it broke' : undefined) }),
    },
  });
}

/** Each row has its own tokens, and none has come to an end twice. */
function judge(call: number, rows: readonly CallRow[], { results }: SimulatedCall): void {
  expect(new Set(results.map(({ index }) => index)).size).toBe(results.length);
  for (const result of results) {
    expect(result.call).toBe(call);
    const { promptTokens = 0, newTokens = 0, endsAfter = Infinity } = rows[result.index] ?? {};
    expect(result.tokens).toEqual(
      Array.from({ length: Math.min(newTokens, endsAfter) }, (_, i) => tokenOf(call, result.index, promptTokens + i)),
    );
  }
}

describe('calls that join one run', () => {
  test('whatever joins, leaves, is aborted or fails, in any phase: each sees its own rows and end, and nothing is left', async () => {
    await fc.assert(
      fc.asyncProperty(setups, async (given) => {
        const all = calls(given);
        const ended = given.calls.map(async ({ after, end: { kind, after: until }, rows, ...of }, call) => {
          await turns(after);
          const abort = new AbortController();
          const last = rows.length - 1;
          const begun = all.begin({
            ...of,
            call,
            rows: rows.map((row, index) => (kind === 'throws' && index === last ? { ...row, throws: true } : row)),
            signal: abort.signal,
            sourceFails: kind === 'source fails',
          });
          if (kind === 'leaves' || kind === 'aborts') {
            await turns(until);
            if (kind === 'leaves') begun.leave();
            else abort.abort('enough');
          }
          const error = await begun.over;
          await begun.joined.settled();
          judge(call, rows, begun);
          const whole = begun.results.length === rows.length;
          switch (kind) {
            case 'well':
              expect(error).toBeUndefined();
              expect(whole).toBe(true);
              break;
            case 'leaves':
              expect(error).toBeUndefined();
              break;
            case 'aborts':
              if (error !== undefined) expect(error).toBeInstanceOf(InterruptedError);
              else expect(whole).toBe(true);
              break;
            case 'throws':
              if (last >= 0 && (rows[last]?.newTokens ?? 0) > 0) expect(String(error)).toContain(`of call ${call}`);
              else expect(whole).toBe(true);
              break;
            case 'source fails':
              expect(String(error)).toContain(`no more rows of call ${call}`);
              expect(whole).toBe(true);
          }
          expect(begun.stats()).toBeDefined();
        });
        await inTime(Promise.all(ended));
        await inTime(all.drained());
        all.nothingLeft();
        expect(all.mostRows()).toBeLessThanOrEqual(given.grid.rowsPerSlot);
      }),
      { numRuns: tries(150, 1500) },
    );
  });

  test('what fails on the device ends all calls, and nothing is left', async () => {
    await fc.assert(
      fc.asyncProperty(setups, fc.integer({ min: 1, max: 120 }), async (given, fail) => {
        const all = calls(given, fail);
        const begun = given.calls.map(({ rows, priority, pause, ahead }) =>
          all.begin({ rows, priority, pause, ahead }),
        );
        const errors = await inTime(Promise.all(begun.map(({ over }) => over)));
        await inTime(Promise.all(begun.map(({ joined }) => joined.settled())));
        await inTime(all.drained());
        begun.forEach((each, call) => {
          judge(call, given.calls[call]?.rows ?? [], each);
        });
        for (const error of errors) if (error !== undefined) expect(error).toBeInstanceOf(TaskError);
        all.nothingLeft();
      }),
      { numRuns: tries(60, 1000) },
    );
  });

  const grid = { layers: 2, slots: 2, rowsPerSlot: 4, tokensPerSquare: 32 };
  // A window of less than a pass, as that of models of more layers is.
  const plenty = { grid, pages: 4000, pageTokens: 4, window: 3 };
  const bulk = (rows: number, newTokens = 60): readonly CallRow[] =>
    Array.from({ length: rows }, () => ({ promptTokens: 4, newTokens }));

  /** Passes from when a call joins to its first token. */
  async function firstToken(all: SimulatedCalls, priority: number, promptTokens = 4): Promise<number> {
    const joinedAt = all.passes();
    let firstAt: number | undefined;
    all.onToken = (call) => {
      if (call === 1) firstAt ??= all.passes();
    };
    const short = all.begin({ rows: [{ promptTokens, newTokens: 2 }], priority });
    await inTime(short.over);
    expect(short.results).toHaveLength(1);
    return (firstAt ?? Infinity) - joinedAt;
  }

  test.each([0, 1])(
    'a short call of priority %d beside one that has all places has its first token within two passes',
    async (priority) => {
      const all = simulatedCalls(plenty);
      const long = all.begin({ rows: bulk(40) });
      await turns(300);
      expect(long.results.length).toBeLessThan(40);
      // The pass that is under way when it joins, and the one that it comes in with.
      expect(await firstToken(all, priority)).toBeLessThanOrEqual(2);
      await inTime(long.over);
      judge(0, bulk(40), long);
      expect(long.results).toHaveLength(40);
      await inTime(all.drained());
      all.nothingLeft();
    },
  );

  test('a call of a higher priority has its prompts computed first', async () => {
    const all = simulatedCalls({ ...plenty, grid: { ...grid, slots: 1, tokensPerSquare: 16 } });
    const prompts = Array.from({ length: 12 }, () => ({ promptTokens: 200, newTokens: 2 }));
    const long = all.begin({ rows: prompts });
    await turns(40);
    expect(await firstToken(all, 1, 8)).toBeLessThanOrEqual(2);
    await inTime(long.over);
    judge(0, prompts, long);
  });

  test('calls of equal priority have equal shares of the places', async () => {
    const all = simulatedCalls(plenty);
    const rows = bulk(40, 8);
    const counts = [0, 0];
    all.onToken = (call) => {
      counts[call] = (counts[call] ?? 0) + 1;
    };
    const both = [all.begin({ rows }), all.begin({ rows })];
    await inTime(Promise.race(both.map(({ over }) => over)));
    const [first = 0, second = 0] = counts;
    // Whichever is over first, the other one is nearly so.
    expect(Math.min(first, second)).toBeGreaterThan(0.85 * Math.max(first, second));
    await inTime(Promise.all(both.map(({ over }) => over)));
  });

  test('a call of a lower priority waits for one of a higher one, and goes on where it stopped', async () => {
    const all = simulatedCalls(plenty);
    const low = all.begin({ rows: bulk(8, 40), priority: -1 });
    await turns(200);
    const before = low.results.length;
    const high = all.begin({ rows: bulk(24, 10), priority: 3 });
    await inTime(high.over);
    expect(low.results.length - before).toBeLessThanOrEqual(8);
    await inTime(low.over);
    judge(0, bulk(8, 40), low);
    judge(1, bulk(24, 10), high);
    expect(low.results).toHaveLength(8);
    // Nothing was computed twice.
    expect(low.stats()?.tokens).toEqual({ prompt: 32, generated: 0 });
    await inTime(all.drained());
    all.nothingLeft();
  });

  test('a bulk call comes forward beside calls of higher priorities that want all places, whatever these are', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.record({
          slots: fc.integer({ min: 1, max: 3 }),
          rowsPerSlot: fc.integer({ min: 2, max: 24 }),
          priorities: fc.uniqueArray(fc.integer({ min: -3, max: 3 }), { minLength: 2, maxLength: 2 }),
          newTokens: fc.integer({ min: 2, max: 12 }),
          bulkTokens: fc.integer({ min: 2, max: 12 }),
          first: fc.boolean(),
        }),
        async ({ slots, rowsPerSlot, priorities, newTokens, bulkTokens, first }) => {
          const all = simulatedCalls({
            grid: { layers: 2, slots, rowsPerSlot, tokensPerSquare: 256 },
            pages: 20_000,
            pageTokens: 4,
            window: 3,
          });
          const places = slots * rowsPerSlot;
          const [low = 0, high = 0] = priorities.sort((a, b) => a - b);
          const rows = bulk(Math.max(1, Math.floor(places / 16)) * 4, bulkTokens);
          const begin = (): SimulatedCall => all.begin({ call: 0, rows, priority: low });
          const early = first ? begin() : undefined;
          const counts: number[] = [0, 0];
          all.onToken = (call) => {
            counts[Math.min(call, 1)] = (counts[Math.min(call, 1)] ?? 0) + 1;
          };
          // Requests of one row, more than there are places; whoever has been answered asks again.
          let goesOn = true;
          let answered = 0;
          const clients = Array.from({ length: 2 * places }, async (_, client) => {
            while (goesOn) {
              const each = all.begin({ call: 1 + client, rows: bulk(1, newTokens), priority: high });
              await each.over;
              answered++;
              if (answered > 400 * places) goesOn = false;
            }
          });
          await turns(20);
          const late = early ?? begin();
          await inTime(late.over);
          goesOn = false;
          await inTime(Promise.all(clients));
          expect(answered).toBeLessThan(400 * places);
          judge(0, rows, late);
          expect(late.results).toHaveLength(rows.length);
          // Requests have nearly all of it nevertheless.
          if (first) expect(counts[1] ?? 0).toBeGreaterThan(counts[0] ?? 0);
          await inTime(all.drained());
          all.nothingLeft();
        },
      ),
      { numRuns: tries(12, 100) },
    );
  });

  test('a short call beside a bulk one that keeps its share has its first token within two passes', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.integer({ min: 1, max: 3 }),
        fc.integer({ min: 2, max: 20 }),
        fc.constantFrom(0, 1),
        async (slots, rowsPerSlot, priority) => {
          const all = simulatedCalls({ ...plenty, grid: { layers: 2, slots, rowsPerSlot, tokensPerSquare: 256 } });
          const rows = bulk(3 * slots * rowsPerSlot, 30);
          const long = all.begin({ rows, priority: -1 });
          await turns(200);
          expect(long.results.length).toBeLessThan(rows.length);
          expect(await firstToken(all, priority)).toBeLessThanOrEqual(2);
          await inTime(long.over);
          judge(0, rows, long);
        },
      ),
      { numRuns: tries(10, 100) },
    );
  });

  test('64 calls of one row take as many passes as one call of 64 rows', async () => {
    const rows = bulk(64, 12);
    const one = simulatedCalls(plenty);
    await inTime(one.begin({ rows }).over);
    const many = simulatedCalls(plenty);
    await inTime(Promise.all(rows.map((row) => many.begin({ rows: [row] }).over)));
    expect(many.passes()).toBeLessThanOrEqual(1.1 * one.passes());
  });

  test('rows of several calls share what their prompts begin with', async () => {
    const rows = Array.from({ length: 4 }, () => ({ promptTokens: 104, newTokens: 4, commonTokens: 100 }));
    const all = simulatedCalls({ ...plenty, grid: { ...grid, tokensPerSquare: 200 } });
    const begun = Array.from({ length: 8 }, () => all.begin({ rows }));
    await inTime(Promise.all(begun.map(({ over }) => over)));
    const saved = begun.reduce((sum, { stats }) => sum + (stats()?.sharing.promptTokensSaved ?? 0), 0);
    expect(saved).toBeGreaterThan(0.8 * 31 * 100);
    begun.forEach((each, call) => {
      judge(call, rows, each);
    });
  });

  test('time of batches is that of the calls that have tokens in them', async () => {
    const all = simulatedCalls({ ...plenty, simulation: { duration: () => 1 } });
    const rows = bulk(4, 6);
    const both = [all.begin({ rows }), all.begin({ rows })];
    await inTime(Promise.all(both.map(({ over }) => over)));
    const seconds = both.map(({ stats }) => stats()?.seconds ?? { prefill: 0, decode: 0 });
    const sum = seconds.reduce((total, { prefill, decode }) => total + prefill + decode, 0);
    const busy = Math.max(...both.map(({ stats }) => stats()?.queues['cpu-compute']?.busySeconds ?? 0));
    expect(sum).toBeCloseTo(busy);
    expect(seconds[0]?.decode).toBeCloseTo(seconds[1]?.decode ?? 0);
  });
});
