import { describe, expect, test } from '@jest/globals';
import { hopsOf, type QueueName, type TaskName } from '../../../src/engine/grid/Task.js';
import { PagePool } from '../../../src/engine/memory/PagePool.js';
import { ScheduleError, type PathConstraint } from '../../../src/errors/engineErrors.js';
import { diagonalBlock, zigZagBlock } from '../../../src/engine/schedules/blockSchedules.js';
import { defaultPipeline } from '../../../src/operators/defaultPipeline.js';
import { edge, sameSquare, withoutEdge, type Edge } from '../../support/droppedEdges.js';
import { overriding } from '../../support/overriding.js';
import { judgePath, runAndJudge, type JudgedSetup } from '../../support/judgedRun.js';
import { tieredPool, type SimulatedMoves } from '../../support/simulatedRun.js';
import { randomNumbers, randomSchedule } from '../../support/randomSchedule.js';
import { tries } from '../../support/tries.js';

const SEEDS = Array.from({ length: tries(8, 12) }, (_, seed) => seed);
/** One for each kind of schedule, where no path may be valid whatever the seed. */
const ONE_OF_EACH = SEEDS.slice(0, tries(3, SEEDS.length));
const THIRDS = { gpu: 0.3, cpu: 0.3, disk: 0.4 };
const PAGES = 9;

/** Runs in which every dependency matters: everything on every tier, tasks of any length, all queues busy. */
function scenario(seed: number, unordered: boolean, moves: SimulatedMoves = 'shares'): JudgedSetup {
  const random = randomNumbers(seed + 1);
  const below = (count: number): number => Math.floor(random() * count);
  return {
    grid: { layers: 3, slots: 4, rowsPerSlot: 2, tokensPerSquare: 6 },
    rows: Array.from({ length: 12 }, () => ({ promptTokens: 1 + below(9), newTokens: 1 + below(5) })),
    schedule: [diagonalBlock(), zigZagBlock(), randomSchedule(seed)][seed % 3] ?? diagonalBlock(),
    placement: { weights: THIRDS, cache: THIRDS, activations: THIRDS },
    moves,
    pages: PAGES,
    pageTokens: 4,
    window: 8,
    aheads: { weights: 1, cache: 1, activations: 1 },
    pipeline: defaultPipeline,
    simulation: {
      computeTier: 'gpu',
      unordered,
      duration: () => 1 + below(below(2) === 0 ? 3 : 30),
      burst: 1 + below(3),
    },
  };
}

/** The constraints that the judges name, over these seeds. */
async function verdicts(
  make: (seed: number) => { given: JudgedSetup; judgedAs?: JudgedSetup },
  seeds = SEEDS,
): Promise<Map<string, number>> {
  const found = new Map<string, number>();
  for (const seed of seeds) {
    const { given, judgedAs } = make(seed);
    let verdict = 'valid';
    try {
      const judged = await runAndJudge(given);
      if (judgedAs) {
        judgePath(judgedAs, judged);
        if (judged.mostUnderWay() > judgedAs.window) verdict = 'window';
      }
    } catch (error) {
      if (!(error instanceof ScheduleError)) throw error;
      verdict = error.constraint;
    }
    found.set(verdict, (found.get(verdict) ?? 0) + 1);
  }
  return found;
}

const dependencies: readonly [string, Edge, PathConstraint][] = [
  ['load_weight → compute', edge('load_weight', 'compute'), 'inputs-on-device'],
  ['load_cache → compute', edge('load_cache', 'compute'), 'inputs-on-device'],
  ['load_activation → compute', edge('load_activation', 'compute'), 'inputs-on-device'],
  [
    'left neighbour → compute',
    (earlier, later) => earlier.name === 'compute' && later.name === 'compute' && !sameSquare(earlier, later),
    'left-neighbour',
  ],
  [
    'a part of compute → the next',
    (earlier, later) => earlier.name === 'compute' && later.name === 'compute' && sameSquare(earlier, later),
    'inputs-on-device',
  ],
  ['compute → store_activation', edge('compute', 'store_activation'), 'lifetime'],
  ['compute → store_cache', edge('compute', 'store_cache'), 'lifetime'],
  ['store_activation → load_activation', edge('store_activation', 'load_activation'), 'inputs-on-device'],
  ['store_cache → load_cache', edge('store_cache', 'load_cache'), 'inputs-on-device'],
  ...(['load_weight', 'load_cache', 'load_activation'] as const).map((name): [string, Edge, PathConstraint] => [
    `a hop of ${name} → the next`,
    edge(name, name),
    'inputs-on-device',
  ]),
  ...(['store_activation', 'store_cache'] as const).map((name): [string, Edge, PathConstraint] => [
    `a hop of ${name} → the next`,
    edge(name, name),
    'lifetime',
  ]),
];

/** In engines a load or store is one task that goes over the link and to or from the disk, side by side. */
const over =
  (from: TaskName, to: TaskName, queue: QueueName): Edge =>
  (earlier, later) =>
    earlier.name === from &&
    later.name === to &&
    [...hopsOf(earlier), ...hopsOf(later)].some((hop) => hop.queue === queue);
const pagedDependencies: readonly [string, Edge, PathConstraint][] = [
  ['load_weight over the link → compute', over('load_weight', 'compute', 'host-to-device'), 'inputs-on-device'],
  ['load_weight from the disk → compute', over('load_weight', 'compute', 'disk-read'), 'inputs-on-device'],
  ['load_cache → compute', edge('load_cache', 'compute'), 'inputs-on-device'],
  ['store_cache → load_cache', edge('store_cache', 'load_cache'), 'inputs-on-device'],
  ['compute → store_cache', edge('compute', 'store_cache'), 'lifetime'],
  ['load_activation over the link → compute', over('load_activation', 'compute', 'host-to-device'), 'inputs-on-device'],
  [
    'store_activation over the link → load_activation',
    over('store_activation', 'load_activation', 'device-to-host'),
    'inputs-on-device',
  ],
  ['compute → store_activation over the link', over('compute', 'store_activation', 'device-to-host'), 'lifetime'],
];
const fetchedDependencies: readonly [string, Edge, PathConstraint][] = [
  ['load_cache over the link → compute', over('load_cache', 'compute', 'host-to-device'), 'inputs-on-device'],
  ['load_cache from the disk → compute', over('load_cache', 'compute', 'disk-read'), 'inputs-on-device'],
  ['store_cache → load_cache', edge('store_cache', 'load_cache'), 'inputs-on-device'],
  ['compute → store_cache over the link', over('compute', 'store_cache', 'device-to-host'), 'lifetime'],
];

/** Stages that leave out what goes over one link. */
const withoutLink =
  (queue: QueueName): JudgedSetup['pipeline'] =>
  (run) =>
    defaultPipeline(
      overriding(run, {
        issueMoves: (square, name, routes, after) =>
          run.issueMoves(
            square,
            name,
            routes.map((route) =>
              route
                .filter((move) => move.queue !== queue)
                .map((move) => ({ ...move, hops: move.hops?.filter((hop) => hop.queue !== queue) })),
            ),
            after,
          ),
      }),
    );
const links: readonly [SimulatedMoves, QueueName][] = (
  ['shares', 'cpu-attention', 'pages', 'fetched-pages'] as const
).flatMap((moves) =>
  (['host-to-device', 'device-to-host', 'disk-read', 'disk-write'] as const).map(
    (queue): [SimulatedMoves, QueueName] => [moves, queue],
  ),
);

const gates: readonly [string, Edge][] = [
  ['look-ahead of load_weight', edge('compute', 'load_weight')],
  ['look-ahead of load_cache', edge('compute', 'load_cache')],
  ['look-ahead of load_activation', edge('compute', 'load_activation')],
];

describe('mutants: one dependency or reservation switched off', () => {
  test.each(['shares', 'cpu-attention', 'pages', 'fetched-pages'] as const)(
    'with all of them on, every path is valid (%s)',
    async (moves) => {
      for (const unordered of [true, false])
        expect(await verdicts((seed) => ({ given: scenario(seed, unordered, moves) }))).toEqual(
          new Map([['valid', SEEDS.length]]),
        );
    },
  );

  test.each(dependencies)('without "%s" the path is refused', async (_, dropped, constraint) => {
    const found = await verdicts((seed) => ({ given: { ...scenario(seed, true), wrapDevice: withoutEdge(dropped) } }));
    expect([...found.keys()].filter((verdict) => verdict !== 'valid')).toContain(constraint);
    expect(found.get('valid') ?? 0).toBeLessThan(SEEDS.length / 2);
  });

  test.each(pagedDependencies)('by pages, without "%s" the path is refused', async (_, dropped, constraint) => {
    const found = await verdicts((seed) => ({
      given: { ...scenario(seed, true, 'pages'), wrapDevice: withoutEdge(dropped) },
    }));
    expect(found.get(constraint)).toBeGreaterThan(2);
  });

  test.each(fetchedDependencies)('fetched, without "%s" the path is refused', async (_, dropped, constraint) => {
    const found = await verdicts((seed) => ({
      given: { ...scenario(seed, true, 'fetched-pages'), wrapDevice: withoutEdge(dropped) },
    }));
    expect(found.get(constraint)).toBeGreaterThan(2);
  });

  test.each(links)('%s: stages that leave out %s are refused', async (moves, queue) => {
    const found = await verdicts(
      (seed) => ({
        given: { ...scenario(seed, false, moves), pipeline: withoutLink(queue) },
      }),
      ONE_OF_EACH,
    );
    expect(found.get('valid')).toBeUndefined();
  });

  test.each(gates)('without the %s tiers hold more than they may', async (_, dropped) => {
    const found = await verdicts((seed) => ({ given: { ...scenario(seed, false), wrapDevice: withoutEdge(dropped) } }));
    expect(found.get('capacity')).toBeGreaterThan(0);
  });

  test('without reservations a tier is above its cap', async () => {
    const found = await verdicts((seed) => ({
      given: { ...scenario(seed, false), pages: 1000 },
      judgedAs: scenario(seed, false),
    }));
    expect(found.get('capacity')).toBeGreaterThan(SEEDS.length / 2);
  });

  test.each([
    ['gpu', { gpu: 0.5, cpu: 0.5, disk: 0 }],
    ['memory', { gpu: 0.2, cpu: 0.8, disk: 0 }],
    ['disk', { gpu: 0, cpu: 0.5, disk: 0.5 }],
  ] as const)('without reservations on one tier (%s) that tier is above its cap', async (tier, cache) => {
    const found = await verdicts((seed) => {
      const given = scenario(seed, false, 'pages');
      const placement = { ...given.placement, cache };
      const { gpu, capacity, disk } = tieredPool(placement, PAGES, given.pageTokens);
      const roomy = (name: typeof tier, pages: number): number => (name === tier ? 1000 : pages);
      const pool = new PagePool(
        roomy('memory', capacity),
        given.pageTokens,
        { ...disk, pages: roomy('disk', disk.pages) },
        { ...gpu, pages: roomy('gpu', gpu.pages) },
      );
      return { given: { ...given, placement, pool } };
    });
    expect(found.get('capacity')).toBeGreaterThan(2);
    expect([...found.keys()].filter((verdict) => !['valid', 'capacity'].includes(verdict))).toEqual([]);
  });

  test('without credits more squares are under way than the window has', async () => {
    const found = await verdicts((seed) => ({
      given: { ...scenario(seed, false), window: 1000 },
      judgedAs: scenario(seed, false),
    }));
    expect((found.get('window') ?? 0) + (found.get('capacity') ?? 0)).toBeGreaterThan(SEEDS.length / 2);
  });

  test('when squares leave before their tasks are done, memory would be given back in use: refused', async () => {
    const found = await verdicts((seed) => ({
      given: {
        ...scenario(seed, false),
        pipeline: (run) =>
          defaultPipeline(
            overriding(run, {
              issueMoves: (square, name, routes, after) => {
                const events = run.issueMoves(square, name, routes, after);
                // The stores are forgotten, so `synchronize` does not wait for them.
                if (name === 'store_cache') square.events.all.length -= routes.flat().length;
                return events;
              },
            }),
          ),
      },
    }));
    expect(found.get('lifetime')).toBeGreaterThan(0);
  });
});
