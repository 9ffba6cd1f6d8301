import { describe, expect, test } from '@jest/globals';
import {
  asyncScheduler,
  bufferCount,
  concatMap,
  EMPTY,
  filter,
  lastValueFrom,
  map,
  observeOn,
  of,
  take,
  toArray,
} from 'rxjs';
import type { StageContext } from '../../../src/engine/execution/Run.js';
import { ALL_ON_CPU, type Placement } from '../../../src/engine/memory/movement.js';
import { ScheduleError, type PathConstraint } from '../../../src/errors/engineErrors.js';
import { diagonalBlock } from '../../../src/engine/schedules/blockSchedules.js';
import { compute } from '../../../src/operators/compute.js';
import { loadActivation } from '../../../src/operators/loadActivation.js';
import { loadCache } from '../../../src/operators/loadCache.js';
import { loadWeight } from '../../../src/operators/loadWeight.js';
import { overlap } from '../../../src/operators/overlap.js';
import { serialize } from '../../../src/operators/serialize.js';
import type { Stage } from '../../../src/operators/stageInternals.js';
import { storeActivation } from '../../../src/operators/storeActivation.js';
import { storeCache } from '../../../src/operators/storeCache.js';
import { synchronize } from '../../../src/operators/synchronize.js';
import { overriding } from '../../support/overriding.js';
import { inTime, judgedRun, judgeResults, runAndJudge, type JudgedSetup } from '../../support/judgedRun.js';

type StageMaker = (run: StageContext) => Stage;

const STAGES = {
  loadWeight,
  loadCache,
  loadActivation,
  compute,
  storeActivation,
  storeCache,
  synchronize,
} satisfies Record<string, StageMaker>;
type StageName = keyof typeof STAGES;
const ORDER: readonly StageName[] = [
  'loadWeight',
  'loadCache',
  'loadActivation',
  'compute',
  'storeActivation',
  'storeCache',
  'synchronize',
];
const HALVES = { gpu: 0, cpu: 0.5, disk: 0.5 };

function composed(names: readonly StageName[], how: typeof overlap = overlap): StageMaker {
  return (run) => how(...names.map((name) => STAGES[name](run)));
}

const without = (name: StageName): StageName[] => ORDER.filter((each) => each !== name);

/** The stages with one of them standing right after another. */
function behind(name: StageName, other: StageName): StageName[] {
  return without(name).flatMap((each) => (each === other ? [each, name] : [each]));
}

function setup(
  pipeline: StageMaker,
  placement: Placement,
  machine: Pick<JudgedSetup, 'moves' | 'simulation'> = {},
): JudgedSetup {
  return {
    grid: { layers: 3, slots: 2, rowsPerSlot: 2, tokensPerSquare: 8 },
    rows: Array.from({ length: 9 }, (_, index) => ({ promptTokens: 1 + (index % 4), newTokens: 1 + (index % 3) })),
    schedule: diagonalBlock(),
    placement,
    pages: 40,
    pageTokens: 4,
    window: 8,
    aheads: { weights: 1, cache: 1, activations: 1 },
    pipeline,
    ...machine,
    simulation: { duration: ({ name }) => (name === 'compute' ? 2 : 3), ...machine.simulation },
  };
}

/** The processor computes; or a GPU, with each of the ways in which things move there. */
const MACHINES: readonly Pick<JudgedSetup, 'moves' | 'simulation'>[] = [
  {},
  ...(['shares', 'cpu-attention', 'pages'] as const).map((moves) => ({
    moves,
    simulation: { computeTier: 'gpu' as const },
  })),
];
const ALL_HALVES: Placement = { weights: HALVES, cache: HALVES, activations: HALVES };

describe('a composition', () => {
  test.each<[string, readonly StageName[], PathConstraint]>([
    ['without loadWeight', without('loadWeight'), 'inputs-on-device'],
    ['without loadCache', without('loadCache'), 'inputs-on-device'],
    ['without loadActivation', without('loadActivation'), 'inputs-on-device'],
    ['without compute', without('compute').filter((name) => !name.startsWith('store')), 'complete'],
    ['without storeActivation', without('storeActivation'), 'lifetime'],
    ['without storeCache', without('storeCache'), 'lifetime'],
    ['without synchronize', without('synchronize'), 'lifetime'],
    ['of nothing', [], 'complete'],
    ['with loadWeight behind compute', behind('loadWeight', 'compute'), 'inputs-on-device'],
    ['with loadCache behind compute', behind('loadCache', 'compute'), 'inputs-on-device'],
    ['with loadActivation behind compute', behind('loadActivation', 'compute'), 'inputs-on-device'],
    [
      'with storeActivation before compute',
      ['loadWeight', 'loadCache', 'loadActivation', 'storeActivation', 'compute', 'storeCache', 'synchronize'],
      'lifetime',
    ],
    [
      'with storeCache before compute',
      ['loadWeight', 'loadCache', 'loadActivation', 'storeCache', 'compute', 'storeActivation', 'synchronize'],
      'lifetime',
    ],
    [
      'with synchronize before the stores',
      ['loadWeight', 'loadCache', 'loadActivation', 'compute', 'synchronize', 'storeActivation', 'storeCache'],
      'lifetime',
    ],
    ['with synchronize first', ['synchronize', ...without('synchronize')], 'lifetime'],
  ])('%s is refused with the constraint while it runs, and everything is given back', async (_, names, constraint) => {
    for (const [how, machine] of [overlap, serialize].flatMap((each) => MACHINES.map((on) => [each, on] as const))) {
      const judged = judgedRun(setup(composed(names, how), ALL_HALVES, machine));
      const outcome = await inTime(lastValueFrom(judged.results$.pipe(toArray()))).catch((error: unknown) => error);
      expect(outcome).toBeInstanceOf(ScheduleError);
      expect(outcome).toMatchObject({ constraint });
      await inTime(judged.run.drained);
      expect(judged.pool.used).toEqual({ gpu: 0, memory: 0, disk: 0 });
    }
  });

  const all: StageMaker = (run) => overlap(...ORDER.map((name) => STAGES[name](run)));
  const nth = (n: number, stop = n + 1): Stage => filter((_, index) => index < n || index >= stop);
  test.each<[string, StageMaker, PathConstraint]>([
    ['completes after some squares', (run) => overlap(all(run), take(5)), 'complete'],
    ['completes before its first stage has seen all', (run) => overlap(take(5), all(run)), 'complete'],
    ['has nothing to do with the squares', () => () => EMPTY, 'complete'],
    ['loses a square before it is computed', (run) => overlap(nth(7), all(run)), 'left-neighbour'],
    ['loses a square that was computed', (run) => overlap(all(run), nth(7)), 'complete'],
    [
      'loses all squares of a slot after the first',
      (run) =>
        overlap(
          all(run),
          filter(({ batch }) => batch.slot === 0 || batch.pass !== 1),
        ),
      'complete',
    ],
    [
      'passes the squares of a slot in another order',
      (run) => (squares$) =>
        squares$.pipe(
          bufferCount(4),
          concatMap((four) => four.reverse()),
          all(run),
        ),
      'left-neighbour',
    ],
  ])('that %s is refused, and everything is given back', async (_, pipeline, constraint) => {
    const judged = judgedRun(setup(pipeline, ALL_HALVES));
    const outcome = await inTime(lastValueFrom(judged.results$.pipe(toArray()))).catch((error: unknown) => error);
    expect(outcome).toBeInstanceOf(ScheduleError);
    expect(outcome).toMatchObject({ constraint });
    await inTime(judged.run.drained);
    expect(judged.pool.used).toEqual({ gpu: 0, memory: 0, disk: 0 });
  });

  test('may hold squares back, and pass them on as objects of its own', async () => {
    await runAndJudge(
      setup(
        (run) =>
          overlap(
            concatMap((square) => of(square).pipe(observeOn(asyncScheduler))),
            all(run),
            map((square) => ({ ...square })),
          ),
        ALL_HALVES,
      ),
    );
  });

  test.each<[StageName, Placement]>([
    ['loadWeight', { ...ALL_HALVES, weights: ALL_ON_CPU.weights }],
    ['loadCache', { ...ALL_HALVES, cache: ALL_ON_CPU.cache }],
    ['storeCache', { ...ALL_HALVES, cache: ALL_ON_CPU.cache }],
    ['loadActivation', { ...ALL_HALVES, activations: ALL_ON_CPU.activations }],
    ['storeActivation', { ...ALL_HALVES, activations: ALL_ON_CPU.activations }],
  ])('may leave %s out where it would have nothing to move', async (name, placement) => {
    await runAndJudge(setup(composed(without(name)), placement));
  });

  test("of stages of one's own that forget what compute waits for is refused by its trace", async () => {
    await runAndJudge(setup(pipelineWith(loadWeight), ALL_HALVES));
    const careless: StageMaker = (run) =>
      loadWeight(
        overriding(run, {
          issueMoves: (...moves) => {
            run.issueMoves(...moves);
            return [];
          },
        }),
      );
    const given = setup(pipelineWith(careless), ALL_HALVES);
    await expect(runAndJudge(given)).rejects.toMatchObject({ constraint: 'inputs-on-device' });
    // Nothing but the trace can know: the rows themselves come out complete on a simulated device.
    const judged = judgedRun(given);
    judgeResults(given.rows, await lastValueFrom(judged.results$.pipe(toArray())));
  });
});

function pipelineWith(weights: StageMaker): StageMaker {
  return (run) =>
    overlap(
      weights(run),
      loadCache(run),
      loadActivation(run),
      compute(run),
      storeActivation(run),
      storeCache(run),
      synchronize(run),
    );
}
