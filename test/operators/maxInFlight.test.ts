import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { from, lastValueFrom, of, Subject, toArray } from 'rxjs';
import type { IssuedSquare } from '../../src/engine/execution/IssuedSquare.js';
import type { StageContext } from '../../src/engine/execution/Run.js';
import type { Device } from '../../src/engine/grid/Device.js';
import { QUEUE_NAMES, type QueueName, type Task } from '../../src/engine/grid/Task.js';
import { diagonalBlock } from '../../src/engine/schedules/blockSchedules.js';
import { UsageError } from '../../src/errors/UsageError.js';
import { compute } from '../../src/operators/compute.js';
import { defaultPipeline } from '../../src/operators/defaultPipeline.js';
import { loadActivation } from '../../src/operators/loadActivation.js';
import { loadCache } from '../../src/operators/loadCache.js';
import { loadWeight } from '../../src/operators/loadWeight.js';
import { maxInFlight, type InFlightLimit } from '../../src/operators/maxInFlight.js';
import { overlap } from '../../src/operators/overlap.js';
import { serialize } from '../../src/operators/serialize.js';
import type { Stage } from '../../src/operators/stageInternals.js';
import { storeActivation } from '../../src/operators/storeActivation.js';
import { storeCache } from '../../src/operators/storeCache.js';
import { runs } from '../support/arbitraryRuns.js';
import { inTime, judgedRun, judgePath, judgeResults, runAndJudge, type JudgedSetup } from '../support/judgedRun.js';
import { overriding } from '../support/overriding.js';
import { describeStage, SPREAD, square, stageBench } from './support.js';
import { tries } from '../support/tries.js';

const STAGES = [loadWeight, loadCache, loadActivation, compute, storeActivation, storeCache];
const stagesOf = (run: StageContext): Stage => overlap(...STAGES.map((each) => each(run)));

describeStage('maxInFlight', (run) => overlap(maxInFlight(run, { queue: 'disk-read', tasks: 20 }), stagesOf(run)));

type Limits = readonly InFlightLimit[];

const bounded =
  (limits: Limits, stages: (run: StageContext) => Stage): ((run: StageContext) => Stage) =>
  (run) =>
    overlap(...limits.map((limit) => maxInFlight(run, limit)), stages(run));

/** What was in flight on a queue at once: the most, as far as it was not all one square's. */
interface Most {
  tasks: number;
  bytes: number;
}

function watched(given: JudgedSetup): { readonly setup: JudgedSetup; readonly most: ReadonlyMap<QueueName, Most> } {
  const most = new Map(QUEUE_NAMES.map((queue) => [queue, { tasks: 0, bytes: 0 }]));
  const inFlight = new Set<Task>();
  const wrapDevice = (device: Device): Device => {
    device.completed$.subscribe((burst) => {
      for (const { event } of burst) inFlight.delete(event.task);
    });
    return overriding<Device>(device, {
      submit: (task, after) => {
        const event = device.submit(task, after);
        inFlight.add(event.task);
        const there = [...inFlight].filter(({ queue }) => queue === task.queue);
        const same = there.every(({ batch, layer }) => batch === task.batch && layer === task.layer);
        const seen = most.get(task.queue);
        if (seen && !same) {
          seen.tasks = Math.max(seen.tasks, there.length);
          seen.bytes = Math.max(
            seen.bytes,
            there.reduce((sum, { bytes }) => sum + bytes, 0),
          );
        }
        return event;
      },
    });
  };
  return { setup: { ...given, wrapDevice }, most };
}

const limits: fc.Arbitrary<Limits> = fc.array(
  fc.record(
    {
      queue: fc.constantFrom(...QUEUE_NAMES),
      tasks: fc.integer({ min: 1, max: 6 }),
      bytes: fc.integer({ min: 1, max: 3000 }),
    },
    { requiredKeys: ['queue', 'tasks'] },
  ),
  { minLength: 1, maxLength: 3 },
);

const HALVES = { gpu: 0, cpu: 0.5, disk: 0.5 };

function setup(pipeline: (run: StageContext) => Stage): JudgedSetup {
  return {
    grid: { layers: 4, slots: 3, rowsPerSlot: 2, tokensPerSquare: 8 },
    rows: Array.from({ length: 12 }, (_, index) => ({ promptTokens: 1 + (index % 4), newTokens: 1 + (index % 3) })),
    schedule: diagonalBlock(),
    placement: { weights: HALVES, cache: HALVES, activations: HALVES },
    pages: 60,
    pageTokens: 4,
    window: 12,
    aheads: { weights: 1, cache: 1, activations: 1 },
    pipeline,
    simulation: { duration: ({ queue }) => (queue === 'disk-read' ? 5 : 1) },
  };
}

describe('maxInFlight', () => {
  test('whatever the run: no queue holds more than its bound, unless it is one square, and all else is as ever', async () => {
    await fc.assert(
      fc.asyncProperty(runs, limits, async (given, bounds) => {
        const { setup: each, most } = watched({ ...given, pipeline: bounded(bounds, given.pipeline) });
        const judged = judgedRun(each);
        const results = await inTime(lastValueFrom(judged.results$.pipe(toArray())));
        await inTime(judged.run.drained);
        judgeResults(given.rows, results);
        expect(results).toHaveLength(given.rows.length);
        // What is on its way at once is not judged: the judge is wrong where a schedule comes back to a pass's layer.
        judgePath({ ...each, simulation: { ...each.simulation, unordered: true } }, judged);
        judged.nothingLeft();
        for (const { queue, tasks = Infinity, bytes = Infinity } of bounds) {
          expect(most.get(queue)?.tasks).toBeLessThanOrEqual(tasks);
          expect(most.get(queue)?.bytes).toBeLessThanOrEqual(Number(bytes));
        }
      }),
      { numRuns: tries(100, 300) },
    );
  });

  test('bounds what would be more without it; squares wait in the window, which asks for no more', async () => {
    const free = watched(setup(defaultPipeline));
    await runAndJudge(free.setup);
    expect(free.most.get('disk-read')?.tasks).toBeGreaterThan(4);
    const held = watched(setup(bounded([{ queue: 'disk-read', tasks: 4 }], defaultPipeline)));
    const judged = await runAndJudge(held.setup);
    expect(held.most.get('disk-read')?.tasks).toBe(4);
    expect(judged.mostUnderWay()).toBe(12);
  });

  test('a square that is larger than the bound passes alone', async () => {
    const { setup: each, most } = watched(setup(bounded([{ queue: 'disk-read', bytes: 1 }], defaultPipeline)));
    await runAndJudge(each);
    expect(most.get('disk-read')).toEqual({ tasks: 0, bytes: 0 });
  });

  test('a task that fails, and a consumer that goes, end the run as ever', async () => {
    const pipeline = bounded([{ queue: 'disk-read', tasks: 1 }], defaultPipeline);
    let reads = 0;
    const fail = ({ queue }: Task): string | undefined =>
      queue === 'disk-read' && ++reads > 9 ? 'it broke' : undefined;
    const failing = judgedRun({ ...setup(pipeline), simulation: { fail } });
    await expect(inTime(lastValueFrom(failing.results$))).rejects.toThrow(/it broke/);
    await inTime(failing.run.drained);
    const left = judgedRun(setup(pipeline));
    const subscription = left.results$.subscribe();
    for (let turn = 0; turn < 20; turn++) await new Promise((resolve) => setImmediate(resolve));
    subscription.unsubscribe();
    await inTime(left.run.drained);
    for (const { pool } of [failing, left]) expect(pool.used).toEqual({ gpu: 0, memory: 0, disk: 0 });
  });

  test('keeps order, passes what wants nothing of the queue, and completes when the last one has passed', async () => {
    const bench = stageBench(SPREAD, { duration: () => 1 });
    const squares = [square(0, 0, 0), square(0, 0, 1), square(0, 1, 0), square(0, 1, 1)];
    const stages = overlap(maxInFlight(bench, { queue: 'disk-read', tasks: 1 }), stagesOf(bench));
    await expect(lastValueFrom(from(squares).pipe(stages, toArray()))).resolves.toEqual(squares);
    const source$ = new Subject<IssuedSquare>();
    const seen: unknown[] = [];
    source$.pipe(maxInFlight(bench, { queue: 'peer-send', tasks: 1 })).subscribe({
      next: (each) => seen.push(each),
      complete: () => seen.push('complete'),
    });
    const others = [square(1, 0, 0), square(1, 0, 1)];
    for (const each of others) source$.next(each);
    source$.complete();
    expect(seen).toEqual([...others, 'complete']);
  });

  test.each<[string, (run: StageContext) => Stage]>([
    ['behind a stage', (run) => overlap(loadWeight(run), maxInFlight(run, { queue: 'disk-read', tasks: 1 }))],
    ['within serialize', (run) => serialize(maxInFlight(run, { queue: 'disk-write', tasks: 1 }), loadWeight(run))],
  ])('%s it ends the stream: what has been issued would wait in the middle', async (_, stages) => {
    const bench = stageBench(SPREAD);
    const passed = lastValueFrom(from([square(0, 0, 0), square(0, 0, 1)]).pipe(stages(bench)));
    await expect(passed).rejects.toThrow(UsageError);
    await expect(passed).rejects.toThrow('expected it in front of them');
  });

  test.each<[string, unknown, string]>([
    ['no limit', undefined, 'limit: found undefined, expected an object'],
    ['no queue', { tasks: 1 }, 'limit.queue: found undefined, expected one of gpu-compute'],
    ['an unknown queue', { queue: 'disk', tasks: 1 }, 'limit.queue: found "disk", expected one of'],
    ['no bound', { queue: 'disk-read' }, 'limit: found neither tasks nor bytes'],
    ['no task', { queue: 'disk-read', tasks: 0 }, 'limit.tasks: found 0'],
    ['no size', { queue: 'disk-read', bytes: 'much' }, 'limit.bytes: found "much"'],
    ['another name', { queue: 'disk-read', task: 1 }, 'limit: found the unknown "task"'],
  ])('%s is a UsageError', (_, limit, message) => {
    const bench = stageBench(SPREAD);
    expect(() => maxInFlight(bench, limit as InFlightLimit)).toThrow(UsageError);
    expect(() => maxInFlight(bench, limit as InFlightLimit)).toThrow(message);
  });

  test('each subscription counts by itself', async () => {
    const bench = stageBench(SPREAD, { duration: () => 1 });
    const stage = maxInFlight(bench, { queue: 'disk-read', tasks: 1 });
    const first = new Subject<IssuedSquare>();
    const seen: unknown[] = [];
    first.pipe(stage).subscribe((each) => seen.push(each));
    const one = square(0, 0);
    first.next(one);
    expect(seen).toEqual([one]);
    await expect(lastValueFrom(of(square(0, 0)).pipe(stage, toArray()))).resolves.toHaveLength(1);
  });
});
