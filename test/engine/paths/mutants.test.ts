import { describe, expect, test } from '@jest/globals';
import { diagonalBlock } from '../../../src/engine/schedules/diagonalBlock.js';
import { zigZagBlock } from '../../../src/engine/schedules/zigZagBlock.js';
import { ScheduleError, type PathConstraint } from '../../../src/errors/ScheduleError.js';
import { defaultPipeline } from '../../../src/operators/defaultPipeline.js';
import { edge, sameSquare, withoutEdge, type Edge } from '../../support/droppedEdges.js';
import { overriding } from '../../support/overriding.js';
import { judgePath, runAndJudge, type JudgedSetup } from '../../support/judgedRun.js';
import { randomNumbers, randomSchedule } from '../../support/randomSchedule.js';

const SEEDS = Array.from({ length: 12 }, (_, seed) => seed);
const THIRDS = { gpu: 0.3, cpu: 0.3, disk: 0.4 };
const PAGES = 9;

/** Runs in which every dependency matters: everything on every tier, tasks of any length, all queues busy. */
function scenario(seed: number, unordered: boolean): JudgedSetup {
  const random = randomNumbers(seed + 1);
  const below = (count: number): number => Math.floor(random() * count);
  return {
    grid: { layers: 3, slots: 4, rowsPerSlot: 2, tokensPerSquare: 6 },
    rows: Array.from({ length: 12 }, () => ({ promptTokens: 1 + below(9), newTokens: 1 + below(5) })),
    schedule: [diagonalBlock(), zigZagBlock(), randomSchedule(seed)][seed % 3] ?? diagonalBlock(),
    placement: { weights: THIRDS, cache: THIRDS, activations: THIRDS },
    pages: PAGES,
    pageTokens: 4,
    window: 8,
    aheads: { weights: 1, cache: 1, activations: 1 },
    pipeline: defaultPipeline,
    simulation: { computeTier: 'gpu', unordered, duration: () => 1 + below(below(2) === 0 ? 3 : 30), burst: 1 + below(3) },
  };
}

/** The constraints that the judges name, over all seeds. */
async function verdicts(make: (seed: number) => { given: JudgedSetup; judgedAs?: JudgedSetup }): Promise<Map<string, number>> {
  const found = new Map<string, number>();
  for (const seed of SEEDS) {
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
  ['left neighbour → compute', (earlier, later) => earlier.name === 'compute' && later.name === 'compute' && !sameSquare(earlier, later), 'left-neighbour'],
  ['a part of compute → the next', (earlier, later) => earlier.name === 'compute' && later.name === 'compute' && sameSquare(earlier, later), 'inputs-on-device'],
  ['compute → store_activation', edge('compute', 'store_activation'), 'lifetime'],
  ['compute → store_cache', edge('compute', 'store_cache'), 'lifetime'],
  ['store_activation → load_activation', edge('store_activation', 'load_activation'), 'inputs-on-device'],
  ['store_cache → load_cache', edge('store_cache', 'load_cache'), 'inputs-on-device'],
  ...(['load_weight', 'load_cache', 'load_activation'] as const).map((name): [string, Edge, PathConstraint] => [`a hop of ${name} → the next`, edge(name, name), 'inputs-on-device']),
  ...(['store_activation', 'store_cache'] as const).map((name): [string, Edge, PathConstraint] => [`a hop of ${name} → the next`, edge(name, name), 'lifetime']),
];

const gates: readonly [string, Edge][] = [
  ['look-ahead of load_weight', edge('compute', 'load_weight')],
  ['look-ahead of load_cache', edge('compute', 'load_cache')],
  ['look-ahead of load_activation', edge('compute', 'load_activation')],
];

describe('mutants: one dependency or reservation switched off', () => {
  test.each([true, false])('with all of them on, every path is valid (unordered: %s)', async (unordered) => {
    expect(await verdicts((seed) => ({ given: scenario(seed, unordered) }))).toEqual(new Map([['valid', SEEDS.length]]));
  });

  test.each(dependencies)('without "%s" the path is refused', async (_, dropped, constraint) => {
    const found = await verdicts((seed) => ({ given: { ...scenario(seed, true), wrapDevice: withoutEdge(dropped) } }));
    expect([...found.keys()].filter((verdict) => verdict !== 'valid')).toContain(constraint);
    expect(found.get('valid') ?? 0).toBeLessThan(SEEDS.length / 2);
  });

  test.each(gates)('without the %s tiers hold more than they may', async (_, dropped) => {
    const found = await verdicts((seed) => ({ given: { ...scenario(seed, false), wrapDevice: withoutEdge(dropped) } }));
    expect(found.get('capacity')).toBeGreaterThan(0);
  });

  test('without reservations a tier is above its cap', async () => {
    const found = await verdicts((seed) => ({ given: { ...scenario(seed, false), pages: 1000 }, judgedAs: scenario(seed, false) }));
    expect(found.get('capacity')).toBeGreaterThan(SEEDS.length / 2);
  });

  test('without credits more squares are under way than the window has', async () => {
    const found = await verdicts((seed) => ({ given: { ...scenario(seed, false), window: 1000 }, judgedAs: scenario(seed, false) }));
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

