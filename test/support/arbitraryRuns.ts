import fc from 'fast-check';
import type { Placement, TierShares } from '../../src/engine/memory/movement.js';
import type { Schedule } from '../../src/engine/schedules/Schedule.js';
import { diagonalBlock, rowByRow, zigZagBlock } from '../../src/engine/schedules/blockSchedules.js';
import type { Task } from '../../src/engine/grid/Task.js';
import type { JudgedSetup } from './judgedRun.js';
import { randomPipeline } from './randomPipeline.js';
import { randomSchedule } from './randomSchedule.js';

const LONGEST_PROMPT = 24;
const MOST_NEW = 6;

const shares: fc.Arbitrary<TierShares> = fc
  .array(fc.nat(4), { minLength: 3, maxLength: 3 })
  .map(([gpu = 0, cpu = 0, disk = 0]) => {
    const sum = gpu + cpu + disk;
    return sum === 0 ? { gpu: 0, cpu: 1, disk: 0 } : { gpu: gpu / sum, cpu: cpu / sum, disk: disk / sum };
  });

export const placements: fc.Arbitrary<Placement> = fc.record({ weights: shares, cache: shares, activations: shares });

export const schedules: fc.Arbitrary<Schedule> = fc.oneof(
  fc.constantFrom(rowByRow(), zigZagBlock(), diagonalBlock()),
  fc.nat().map(randomSchedule),
);

const rows = fc.array(
  fc.oneof(
    {
      weight: 5,
      arbitrary: fc.record({
        promptTokens: fc.oneof(fc.integer({ min: 1, max: 4 }), fc.integer({ min: 1, max: LONGEST_PROMPT })),
        newTokens: fc.integer({ min: 1, max: MOST_NEW }),
        endsAfter: fc.oneof(fc.constant(Infinity), fc.integer({ min: 1, max: MOST_NEW })),
      }),
    },
    {
      weight: 1,
      arbitrary: fc.record({ promptTokens: fc.integer({ min: 2, max: LONGEST_PROMPT }), newTokens: fc.constant(0) }),
    },
  ),
  { maxLength: 14 },
);

/** Durations of tasks: any, but the same for the same task. */
export const durationOf =
  (seed: number, most: number) =>
  ({ name, part, batch: { pass, slot }, layer }: Task): number => {
    let hash = seed;
    for (const value of [name.length, part?.length ?? 0, pass, layer, slot])
      hash = Math.imul(hash ^ value, 0x9e3779b1) >>> 0;
    return (hash >>> 8) % (most + 1);
  };

/** Runs of every kind that is valid. */
export const runs: fc.Arbitrary<JudgedSetup> = fc
  .record({
    grid: fc.record({
      layers: fc.integer({ min: 1, max: 4 }),
      slots: fc.integer({ min: 1, max: 4 }),
      rowsPerSlot: fc.integer({ min: 1, max: 3 }),
      tokensPerSquare: fc.integer({ min: 3, max: 12 }),
      microBatches: fc.integer({ min: 1, max: 3 }),
    }),
    rows,
    schedule: schedules,
    placement: placements,
    moves: fc.constantFrom('shares' as const, 'cpu-attention' as const, 'pages' as const, 'fetched-pages' as const),
    pageTokens: fc.integer({ min: 1, max: 5 }),
    morePages: fc.nat(20),
    window: fc.integer({ min: 1, max: 12 }),
    ahead: fc.integer({ min: 1, max: 8 }),
    aheads: fc.record({ weights: fc.nat(3), cache: fc.nat(3), activations: fc.nat(3) }),
    composition: fc.nat(),
    pauses: fc.array(fc.oneof(fc.constant(0), fc.nat(40)), { minLength: 1, maxLength: 5 }),
    simulation: fc.record({
      computeTier: fc.constantFrom('cpu' as const, 'gpu' as const),
      burst: fc.integer({ min: 1, max: 6 }),
      unordered: fc.boolean(),
      seed: fc.nat(),
      longest: fc.nat(9),
    }),
  })
  // The longest row fits alone.
  .map(({ morePages, composition, simulation: { seed, longest, ...simulation }, ...given }) => ({
    ...given,
    simulation: { ...simulation, duration: durationOf(seed, longest) },
    // What makes the run, in words: functions say nothing in a report.
    [fc.toStringMethod]: () =>
      fc.stringify({ ...given, schedule: given.schedule.name, composition, morePages, simulation, seed, longest }),
    pages: Math.ceil((LONGEST_PROMPT + MOST_NEW - 1) / given.pageTokens) + morePages,
    pipeline: randomPipeline(composition, given.aheads),
  }));
