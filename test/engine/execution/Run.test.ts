import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { lastValueFrom, take, tap, toArray } from 'rxjs';
import type { BlockState } from '../../../src/engine/schedules/blockSchedule.js';
import type { Schedule } from '../../../src/engine/schedules/Schedule.js';
import type { Device, DeviceRow } from '../../../src/engine/grid/Device.js';
import type { Placement } from '../../../src/engine/memory/movement.js';
import { PagePool } from '../../../src/engine/memory/PagePool.js';
import { diagonalBlock, rowByRow, zigZagBlock } from '../../../src/engine/schedules/blockSchedules.js';
import { rowsOfTrace } from '../../../src/engine/schedules/recordsOfTrace.js';
import { validatePath } from '../../../src/engine/schedules/validatePath.js';
import { ScheduleError, TaskError } from '../../../src/errors/engineErrors.js';
import { UsageError } from '../../../src/errors/UsageError.js';
import { defaultPipeline } from '../../../src/operators/defaultPipeline.js';
import { finishedRows } from '../../../src/operators/finishedRows.js';
import { squares } from '../../../src/operators/squares.js';
import type { RunStats, TraceEvent } from '../../../src/RunStats.js';
import { inTime } from '../../support/judgedRun.js';
import { liveHeapBytes } from '../../support/liveHeapBytes.js';
import { overriding } from '../../support/overriding.js';
import {
  simulatedRun,
  type SimulatedResult,
  type SimulatedRun,
  type SimulatedSetup,
} from '../../support/simulatedRun.js';
import { tries } from '../../support/tries.js';

const GRID = { layers: 3, slots: 2, rowsPerSlot: 2, tokensPerSquare: 8 };

function results({ run }: SimulatedRun): Promise<SimulatedResult[]> {
  return lastValueFrom(squares(run).pipe(defaultPipeline(run), finishedRows(run), toArray()));
}

const share = fc.array(fc.nat(4), { minLength: 3, maxLength: 3 }).map(([gpu = 0, cpu = 0, disk = 0]) => {
  const sum = gpu + cpu + disk;
  return sum === 0 ? { gpu: 0, cpu: 1, disk: 0 } : { gpu: gpu / sum, cpu: cpu / sum, disk: disk / sum };
});
const placement: fc.Arbitrary<Placement> = fc.record({ weights: share, cache: share, activations: share });
const setup: fc.Arbitrary<SimulatedSetup> = fc.record({
  grid: fc.record({
    layers: fc.integer({ min: 1, max: 4 }),
    slots: fc.integer({ min: 1, max: 3 }),
    rowsPerSlot: fc.integer({ min: 1, max: 3 }),
    tokensPerSquare: fc.integer({ min: 3, max: 9 }),
  }),
  rows: fc.array(
    fc.record({
      promptTokens: fc.integer({ min: 1, max: 20 }),
      newTokens: fc.integer({ min: 1, max: 12 }),
      endsAfter: fc.integer({ min: 1, max: 14 }),
    }),
    { maxLength: 12 },
  ),
  schedule: fc.constantFrom(rowByRow(), zigZagBlock(), diagonalBlock()),
  placement,
  pages: fc.integer({ min: 8, max: 20 }), // the longest row, 20 + 12 - 1 positions of 4 a page, fits alone
  window: fc.integer({ min: 1, max: 12 }),
  // The event loop has its turn after every row that ends, or after none.
  turnMilliseconds: fc.constantFrom(0, Infinity),
  simulation: fc.record({
    computeTier: fc.constantFrom('cpu' as const, 'gpu' as const),
    burst: fc.integer({ min: 1, max: 5 }),
    duration: fc
      .func(fc.nat(5))
      .map((draw) => (task: { name: string; layer: number; bytes: number }) => draw(task.name, task.layer, task.bytes)),
    forced: fc.oneof(
      fc.constant(() => 0),
      fc.func(fc.integer({ min: -6, max: 7 })).map(
        (draw) =>
          ({ tokens }: DeviceRow, position: number) =>
            Math.max(0, draw(tokens.length, position)),
      ),
    ),
  }),
});

describe('a run on the simulated device', () => {
  test('completes rows of unequal lengths', async () => {
    const rows = [
      { promptTokens: 3, newTokens: 2 },
      { promptTokens: 20, newTokens: 1 },
      { promptTokens: 1, newTokens: 5 },
    ];
    const done = await results(simulatedRun({ grid: GRID, rows }));
    expect(done.map(({ index, tokens }) => [index, tokens]).sort()).toEqual([
      [0, [3, 4]],
      [1, [20]],
      [2, [1, 2, 3, 4, 5]],
    ]);
  });

  test('advances rows by what is known of them, where the schedule does', async () => {
    const passes = async (schedule: Schedule, window: number): Promise<number> => {
      const simulated = simulatedRun({
        grid: { ...GRID, tokensPerSquare: 12 },
        rows: [{ promptTokens: 3, newTokens: 13 }],
        schedule,
        window,
        simulation: { forced: (_, position) => (position % 4 === 3 ? 3 : 0) },
      });
      expect(await results(simulated)).toEqual([{ index: 0, tokens: [3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15] }]);
      return new Set(simulated.events.map(({ task }) => task.batch.pass)).size;
    };
    const schedule = diagonalBlock();
    // Each sampled token comes with three more.
    expect(await passes(schedule, 1)).toBe(4);
    // With a larger window it is under way by itself when they are first heard of; from then on sweeps wait for the
    // heads before.
    expect(await passes(schedule, GRID.layers)).toBe(5);
    expect(
      await passes(
        { ...schedule, next: (state, { admitted, ended }) => schedule.next(state as BlockState, { admitted, ended }) },
        1,
      ),
    ).toBe(13);
  });

  test('rows that come faster than they were counted on have their memory', async () => {
    const length = { promptTokens: fc.integer({ min: 1, max: 4 }), newTokens: fc.integer({ min: 8, max: 40 }) };
    let hastened = 0;
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.record(length), { minLength: 6, maxLength: 16 }),
        fc.integer({ min: 11, max: 24 }),
        fc.integer({ min: 1, max: 12 }),
        fc.func(fc.integer({ min: -4, max: 12 })),
        async (rows, pages, window, draw) => {
          const simulated = simulatedRun({
            grid: { layers: 2, slots: 2, rowsPerSlot: 4, tokensPerSquare: 16 },
            rows,
            pages,
            window,
            simulation: {
              forced: ({ tokens, capacityTokens }, position) =>
                Math.max(0, draw(tokens.length, capacityTokens, position)),
            },
          });
          expect(
            (await results(simulated))
              .map(({ index, tokens }) => [index, tokens.length])
              .sort(([a = 0], [b = 0]) => a - b),
          ).toEqual(rows.map(({ newTokens }, index) => [index, newTokens]));
          for (const { task } of simulated.events)
            if (task.part === 'head')
              for (const { firstPosition, tokens } of task.batch.rows) if (firstPosition > 4 && tokens > 1) hastened++;
        },
      ),
      { numRuns: tries(16, 100) },
    );
    expect(hastened).toBeGreaterThan(tries(40, 100));
  });

  test('rows that end together let others have their turn between two of them, in the same order', async () => {
    const rows = Array.from({ length: 12 }, () => ({ promptTokens: 2, newTokens: 3 }));
    const endsOf = async (turnMilliseconds: number): Promise<{ order: number[]; turns: number }> => {
      const simulated = simulatedRun({
        grid: { ...GRID, slots: 1, rowsPerSlot: 12, tokensPerSquare: 24 },
        rows,
        turnMilliseconds,
        simulation: { burst: 100 },
      });
      let [turn, ended] = [0, false];
      const count = (): void => {
        turn++;
        if (!ended) setImmediate(count);
      };
      setImmediate(count);
      const ends: number[] = [];
      const order: number[] = [];
      await lastValueFrom(
        squares(simulated.run).pipe(
          defaultPipeline(simulated.run),
          finishedRows(simulated.run),
          tap(({ index, tokens }) => {
            expect(tokens).toEqual([2, 3, 4]);
            order.push(index);
            ends.push(turn);
          }),
        ),
      );
      ended = true;
      await simulated.run.drained;
      simulated.nothingLeft();
      return { order, turns: new Set(ends).size };
    };
    const together = await endsOf(Infinity);
    const apart = await endsOf(0);
    expect(apart.order).toEqual(together.order);
    expect([together.turns, apart.turns]).toEqual([1, 12]);
  });

  test('a consumer that leaves while rows wait to hear of their ends ends them all', async () => {
    const simulated = simulatedRun({
      grid: { ...GRID, slots: 1, rowsPerSlot: 12, tokensPerSquare: 24 },
      rows: Array.from({ length: 12 }, () => ({ promptTokens: 2, newTokens: 1 })),
      turnMilliseconds: 0,
    });
    const seen = await lastValueFrom(
      squares(simulated.run).pipe(defaultPipeline(simulated.run), finishedRows(simulated.run), take(3), toArray()),
    );
    expect(seen.length).toBe(3);
    await simulated.run.drained;
    simulated.nothingLeft();
  });

  test('ends at once without rows', async () => {
    await expect(results(simulatedRun({ grid: GRID, rows: [] }))).resolves.toEqual([]);
  });

  test('every row gets all of its tokens under any grid, schedule, placement, memory, window and timing, and everything is given back', async () => {
    await fc.assert(
      fc.asyncProperty(setup, async (given) => {
        const trace: TraceEvent[] = [];
        const simulated = simulatedRun({ ...given, onTrace: (event) => trace.push(event) });
        const done = await results(simulated);
        await simulated.run.drained;
        const rows = [...(given.rows as Iterable<{ promptTokens: number; newTokens: number; endsAfter: number }>)];
        expect(done.length).toBe(rows.length);
        for (const { index, tokens } of done) {
          const row = rows[index];
          const count = Math.min(row?.newTokens ?? 0, row?.endsAfter ?? 0);
          expect(tokens).toEqual(Array.from({ length: count }, (_, i) => (row?.promptTokens ?? 0) + i));
        }
        const early = new Set(rows.flatMap(({ newTokens, endsAfter }, row) => (endsAfter < newTokens ? [row] : [])));
        const judged = rowsOfTrace(trace);
        // The last tokens of a row are not computed where they come with one that is sampled.
        for (const { row, known = [] } of judged) if (known.length > 0) early.add(row);
        validatePath(given.grid, judged, simulated.events, early);
        expect(simulated.pool.used).toEqual({ gpu: 0, memory: 0, disk: 0 });
        expect(simulated.pool.peakUsed.memory).toBeLessThanOrEqual(given.pages ?? 0);
      }),
      { numRuns: tries(40, 300) },
    );
  });

  test('a failing task is the error of the stream, names the task, and leaves nothing behind', async () => {
    const simulated = simulatedRun({
      grid: GRID,
      rows: Array.from({ length: 6 }, () => ({ promptTokens: 3, newTokens: 3 })),
      simulation: {
        fail: ({ batch, layer, part }) =>
          batch.pass === 1 && layer === 2 && part === 'attend' ? 'the disk fell off' : undefined,
      },
    });
    await expect(results(simulated)).rejects.toThrow(
      new TaskError('compute (attend) pass 1 layer 2 slot 0', 'the disk fell off'),
    );
    await simulated.run.drained;
    expect(simulated.pool.used).toEqual({ gpu: 0, memory: 0, disk: 0 });
  });

  test('a schedule that breaks the path is refused with the constraint', async () => {
    const broken = {
      ...diagonalBlock(),
      next: (...[state, observed]: Parameters<ReturnType<typeof diagonalBlock>['next']>) => {
        const { state: after, squares: all } = diagonalBlock().next(state, observed);
        return { state: after, squares: [...all].reverse() };
      },
    };
    const simulated = simulatedRun({ grid: GRID, rows: [{ promptTokens: 2, newTokens: 2 }], schedule: broken });
    await expect(results(simulated)).rejects.toThrow(ScheduleError);
    await expect(
      results(simulatedRun({ grid: GRID, rows: [{ promptTokens: 2, newTokens: 2 }], schedule: broken })),
    ).rejects.toThrow(/left-neighbour/);
  });

  test('a schedule that forgets a row is refused instead of hanging', async () => {
    const lazy = {
      ...diagonalBlock(),
      next: (state: ReturnType<ReturnType<typeof diagonalBlock>['start']>) => ({ state, squares: [] }),
    };
    await expect(
      results(simulatedRun({ grid: GRID, rows: [{ promptTokens: 2, newTokens: 2 }], schedule: lazy })),
    ).rejects.toThrow(/complete/);
  });

  test.each<[string, unknown]>([
    ['an error', new Error('the tape broke')],
    ['undefined', undefined],
  ])('a source that throws %s ends the run with it, once all rows before it have their results', async (_, thrown) => {
    const rows = (function* () {
      for (let i = 0; i < 40; i++) yield { promptTokens: 1 + (i % 5), newTokens: 1 + (i % 3) };
      throw thrown;
    })();
    const simulated = simulatedRun({ grid: GRID, rows });
    const seen: unknown[] = [];
    await new Promise<void>((resolve) => {
      const { run } = simulated;
      squares(run)
        .pipe(defaultPipeline(run), finishedRows(run))
        .subscribe({
          next: ({ index }) => seen.push(index),
          error: (error: unknown) => {
            seen.push(['failed', error]);
            resolve();
          },
        });
    });
    expect(seen.pop()).toEqual(['failed', thrown]);
    expect([...(seen as number[])].sort((a, b) => a - b)).toEqual([...Array(40).keys()]);
    await simulated.run.drained;
    expect(simulated.pool.used).toEqual({ gpu: 0, memory: 0, disk: 0 });
  });

  test.each([0, -1, NaN, undefined, 0.5])(
    'a schedule whose `free` returns %p while rows wait is refused instead of hanging',
    async (places) => {
      const never = { ...diagonalBlock(), free: () => places as number };
      await expect(
        inTime(results(simulatedRun({ grid: GRID, rows: [{ promptTokens: 2, newTokens: 2 }], schedule: never }))),
      ).rejects.toMatchObject({ name: 'ScheduleError', constraint: 'complete' });
      const later = {
        ...diagonalBlock(),
        free: (...[state, ended]: Parameters<ReturnType<typeof diagonalBlock>['free']>) =>
          state.pass === 0 ? diagonalBlock().free(state, ended) : (places as number),
      };
      const rows = Array.from({ length: 9 }, () => ({ promptTokens: 2, newTokens: 2 }));
      await expect(inTime(results(simulatedRun({ grid: GRID, rows, schedule: later })))).rejects.toMatchObject({
        name: 'ScheduleError',
        constraint: 'complete',
      });
    },
  );

  test.each<[string, unknown]>([
    ['nothing', undefined],
    ['no squares', {}],
    ['squares that are none', { squares: 5 }],
    ['a square of nothing', { squares: [{}] }],
    ['null for a square', { squares: [null] }],
    [
      'a square without a pass',
      { squares: [{ layer: 0, slot: 0, rows: [{ row: 0, firstPosition: 0, tokens: 2, head: 'sample' }] }] },
    ],
    ['a range of nothing', { squares: [{ pass: 0, layer: 0, slot: 0, rows: [undefined] }] }],
    [
      'a range that is no number',
      { squares: [{ pass: 0, layer: 0, slot: 0, rows: [{ row: 0, firstPosition: NaN, tokens: 2, head: 'sample' }] }] },
    ],
  ])('a schedule whose `next` returns %s is refused with its name', async (_, sweep) => {
    const broken = {
      ...diagonalBlock(),
      name: 'mine',
      next: () => sweep as ReturnType<ReturnType<typeof diagonalBlock>['next']>,
    };
    const simulated = simulatedRun({ grid: GRID, rows: [{ promptTokens: 2, newTokens: 2 }], schedule: broken });
    const outcome: unknown = await inTime(results(simulated)).catch((error: unknown) => error);
    expect(outcome).toBeInstanceOf(ScheduleError);
    expect(String(outcome)).toContain('mine: next ');
    expect(simulated.pool.used).toEqual({ gpu: 0, memory: 0, disk: 0 });
  });

  test('a schedule that does not start fails the run, and nothing of it is left', async () => {
    let open = 0;
    const simulated = simulatedRun({
      grid: GRID,
      rows: [],
      schedule: {
        ...diagonalBlock(),
        start: () => {
          throw new Error('no start');
        },
      },
      wrapDevice: (device) =>
        overriding<Device>(device, {
          openRun: () => {
            open++;
          },
          closeRun: () => {
            open--;
          },
        }),
    });
    expect(open).toBe(1);
    await expect(results(simulated)).rejects.toThrow('no start');
    await inTime(simulated.run.drained);
    expect(open).toBe(0);
  });

  test('a callback that throws fails the run with what it threw, after the rows that were finished; the others are still called', async () => {
    const thrown = new Error('mine');
    const fails = (): never => {
      throw thrown;
    };
    const rows = Array.from({ length: 9 }, () => ({ promptTokens: 2, newTokens: 2 }));
    for (const callbacks of [{ onProgress: fails }, { onTrace: fails }]) {
      let stats: RunStats | undefined;
      const simulated = simulatedRun({
        grid: GRID,
        rows,
        ...callbacks,
        onStats: (each) => {
          stats = each;
        },
      });
      await expect(inTime(results(simulated))).rejects.toBe(thrown);
      await simulated.run.settled();
      expect(stats).toBeDefined();
    }
    const simulated = simulatedRun({ grid: GRID, rows, onStats: fails });
    const { run } = simulated;
    let finished = 0;
    await expect(
      inTime(
        lastValueFrom(
          squares(run).pipe(
            defaultPipeline(run),
            finishedRows(run),
            tap(() => finished++),
          ),
        ),
      ),
    ).rejects.toBe(thrown);
    expect(finished).toBe(9);
    expect(simulated.pool.used).toEqual({ gpu: 0, memory: 0, disk: 0 });
  });

  test('a consumer that has gone is told what a callback threw where it waits for the end', async () => {
    const simulated = simulatedRun({
      grid: GRID,
      rows: [{ promptTokens: 2, newTokens: 2 }],
      onStats: () => {
        throw new Error('mine');
      },
    });
    const { run } = simulated;
    squares(run).pipe(defaultPipeline(run), finishedRows(run)).subscribe().unsubscribe();
    await expect(run.settled()).rejects.toThrow('mine');
  });

  test('squares are subscribed to once, and not after the end', async () => {
    const simulated = simulatedRun({ grid: GRID, rows: [] });
    await results(simulated);
    await expect(lastValueFrom(squares(simulated.run))).rejects.toThrow(UsageError);
    const failed = simulatedRun({ grid: GRID, rows: [] });
    failed.run.fail(new Error('closed before'));
    await expect(lastValueFrom(squares(failed.run))).rejects.toThrow('closed before');
  });

  test('many rows stream through in steady memory, admitted no faster than they are taken', async () => {
    const total = tries(150_000, 1_000_000);
    let pulled = 0;
    const rows = (function* () {
      while (pulled < total) {
        pulled++;
        yield { promptTokens: 1, newTokens: 1 };
      }
    })();
    const simulated = simulatedRun({ grid: { layers: 1, slots: 1, rowsPerSlot: 2048, tokensPerSquare: 2048 }, rows });
    simulated.device.completed$.subscribe(() => (simulated.events as unknown[]).splice(0));
    const { run } = simulated;
    let taken = 0;
    let ahead = 0;
    let heapAfterWarmUp = 0;
    await lastValueFrom(
      squares(run).pipe(
        defaultPipeline(run),
        finishedRows(run),
        tap(() => {
          taken++;
          ahead = Math.max(ahead, pulled - taken);
          if (taken === total / 10) heapAfterWarmUp = liveHeapBytes();
        }),
      ),
    );
    expect(taken).toBe(total);
    expect(ahead).toBeLessThanOrEqual(12 * 2048); // the window's squares, and the rows that wait
    expect(liveHeapBytes() - heapAfterWarmUp).toBeLessThan(8 * 2 ** 20);
  });

  test('never more squares under way than the window has credits', async () => {
    const simulated = simulatedRun({
      grid: GRID,
      rows: Array.from({ length: 9 }, () => ({ promptTokens: 5, newTokens: 4 })),
      window: 3,
    });
    const { run } = simulated;
    let under = 0;
    let most = 0;
    await lastValueFrom(
      squares(run).pipe(
        tap(() => (most = Math.max(most, ++under))),
        defaultPipeline(run),
        tap(() => under--),
        finishedRows(run),
        toArray(),
      ),
    );
    expect(most).toBe(3);
  });

  test('a page that a row copies from is not to be had before the copying batch has been through all layers', async () => {
    const rows = [
      [1, 2, 3, 4, 5, 6],
      [1, 2, 3, 4, 5, 9],
    ].map((prompt) => ({ prompt, promptTokens: prompt.length, newTokens: 2 }));
    const pool = new PagePool(10, 4);
    // While the second row is computed: one page shared, one that is copied, one of its own.
    const spared: boolean[] = [];
    const simulated = simulatedRun({
      grid: { layers: 2, slots: 1, rowsPerSlot: 1, tokensPerSquare: 8 },
      window: 1,
      rows,
      schedule: rowByRow(),
      pool,
      pageTokens: 4,
      sharePrefixes: true,
      wrapDevice: (device) =>
        overriding<Device>(device, {
          submit: (task, after) => {
            if (task.part === 'project' && task.batch.rows[0]?.firstPosition === 5)
              spared.push(pool.has({ gpu: 0, memory: 8, disk: 0 }));
            return device.submit(task, after);
          },
        }),
    });
    expect(await results(simulated)).toHaveLength(2);
    expect(spared).toEqual([false, false]);
    expect(pool.used.memory).toBe(0);
  });
});

test('prompts of two kinds share nothing, and a beginning is computed as one of its kind', async () => {
  const common = Array.from({ length: 100 }, (_, i) => i);
  const rows = [30, 30, 30, 10, 10, 10].map((own, row) => {
    const prompt = [...common, ...Array.from({ length: own }, () => 1000 + row)];
    return { promptTokens: prompt.length, newTokens: 2, prompt };
  });
  const opened: DeviceRow[] = [];
  const simulated = simulatedRun({
    grid: { ...GRID, tokensPerSquare: 64 },
    rows,
    sharePrefixes: true,
    ahead: 8,
    wrapDevice: (device) =>
      overriding<Device>(device, {
        promptKind: (promptTokens) => (promptTokens >= 120 ? 'long' : ''),
        openRow: (run, row, sequence) => {
          opened.push(sequence);
          device.openRow(run, row, sequence);
        },
      }),
  });
  expect(await results(simulated)).toHaveLength(6);
  const prefixes = opened.filter(({ promptTokens }) => promptTokens !== undefined);
  expect(prefixes.map(({ tokens, promptTokens }) => [tokens.length, promptTokens])).toEqual([
    [100, 130],
    [100, 110],
  ]);
});
