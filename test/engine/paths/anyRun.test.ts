import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { take, tap } from 'rxjs';
import { TaskError } from '../../../src/errors/engineErrors.js';
import type { SimulatedResult } from '../../support/simulatedRun.js';
import { runs } from '../../support/arbitraryRuns.js';
import { inTime, judgedRun, judgeResults, runAndJudge } from '../../support/judgedRun.js';
import { tries } from '../../support/tries.js';

describe('any grid, rows, arrivals, policy, memory, window, look-ahead, timing, schedule and composition', () => {
  test('every path is valid, no tier is above its cap at any event, every row completes once, and everything is given back', async () => {
    await fc.assert(
      fc.asyncProperty(runs, async (given) => {
        await runAndJudge(given);
      }),
      { numRuns: tries(134, 400) },
    );
  });

  test('wherever a task fails, the error names it, rows that were done stay as they are, and everything is given back', async () => {
    await fc.assert(
      fc.asyncProperty(runs, fc.integer({ min: 1, max: 400 }), async (given, failing) => {
        let submitted = 0;
        const judged = judgedRun({
          ...given,
          simulation: { ...given.simulation, fail: () => (++submitted === failing ? 'it broke' : undefined) },
        });
        const results: SimulatedResult[] = [];
        const error = await inTime(
          new Promise<unknown>((resolve) => {
            judged.results$.subscribe({
              next: (result) => results.push(result),
              error: resolve,
              complete: () => {
                resolve(undefined);
              },
            });
          }),
        );
        await inTime(judged.run.drained);
        judgeResults(given.rows, results);
        if (submitted < failing) expect(results.length).toBe(given.rows.length);
        else {
          expect(error).toBeInstanceOf(TaskError);
          expect(String(error)).toMatch(/it broke|failed/);
        }
        expect(judged.pool.used).toEqual({ gpu: 0, memory: 0, disk: 0 });
        expect([...judged.lives.values()].every(({ until }) => until < Infinity)).toBe(true);
      }),
      { numRuns: tries(67, 200) },
    );
  });

  test('whenever somebody unsubscribes, rows that were done stay as they are, and everything is given back', async () => {
    await fc.assert(
      fc.asyncProperty(runs, fc.nat(60), fc.boolean(), async (given, count, byResult) => {
        const judged = judgedRun(given);
        const results: SimulatedResult[] = [];
        await inTime(
          new Promise<void>((resolve) => {
            const taken$ = judged.results$.pipe(tap((result) => results.push(result)));
            if (byResult) taken$.pipe(take(1 + (count % 4))).subscribe({ complete: resolve });
            else {
              const subscription = taken$.subscribe({ complete: resolve });
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
              wait(count);
            }
          }),
        );
        await inTime(judged.run.drained);
        judgeResults(given.rows, results);
        expect(judged.pool.used).toEqual({ gpu: 0, memory: 0, disk: 0 });
        expect([...judged.lives.values()].every(({ until }) => until < Infinity)).toBe(true);
      }),
      { numRuns: tries(67, 200) },
    );
  });
});
