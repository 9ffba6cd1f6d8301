import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { lastValueFrom, toArray } from 'rxjs';
import { PeerError, TaskError } from '../../../src/errors/engineErrors.js';
import { ALL_ON_CPU } from '../../../src/engine/memory/movement.js';
import { PagePool } from '../../../src/engine/memory/PagePool.js';
import { diagonalBlock, rowByRow, zigZagBlock } from '../../../src/engine/schedules/blockSchedules.js';
import { layerBounds } from '../../../src/engine/grid/Square.js';
import { defaultPipeline } from '../../../src/operators/defaultPipeline.js';
import { durationOf, schedules } from '../../support/arbitraryRuns.js';
import { layerwiseSchedule } from '../../support/layerwiseSchedule.js';
import { inTime, judgeResults } from '../../support/judgedRun.js';
import { randomPipeline } from '../../support/randomPipeline.js';
import {
  runAndJudgePeers,
  settled,
  simulatedPeers,
  type SimulatedPeer,
  type PeersSetup,
} from '../../support/simulatedPeers.js';
import type { SimulatedRow } from '../../support/simulatedRun.js';
import { treesOfRows } from '../../support/treesOfRows.js';
import { tries } from '../../support/tries.js';

const AHEADS = { weights: 1, cache: 1, activations: 1 };
const PLACES = { placement: ALL_ON_CPU, aheads: AHEADS, pipeline: defaultPipeline, sharePrefixes: true } as const;

/** Rows of a tree, their layers divided over two to four devices, which have pages for the longest row at least. */
const rings: fc.Arbitrary<PeersSetup> = fc
  .record({
    rows: treesOfRows,
    schedule: fc.oneof(schedules, fc.nat().map(layerwiseSchedule)),
    pageTokens: fc.integer({ min: 1, max: 6 }),
    morePages: fc.array(fc.nat(30), { minLength: 4, maxLength: 4 }),
    counts: fc.array(fc.integer({ min: 1, max: 2 }), { minLength: 2, maxLength: 4 }),
    slots: fc.integer({ min: 1, max: 3 }),
    rowsPerSlot: fc.integer({ min: 1, max: 4 }),
    tokensPerSquare: fc.integer({ min: 4, max: 24 }),
    window: fc.integer({ min: 1, max: 9 }),
    composition: fc.nat(),
    aheads: fc.record({ weights: fc.nat(3), cache: fc.nat(3), activations: fc.nat(3) }),
    ahead: fc.integer({ min: 1, max: 12 }),
    linkCapacity: fc.integer({ min: 1, max: 3 }),
    simulation: fc.record({
      burst: fc.integer({ min: 1, max: 6 }),
      duration: fc.nat().map((seed) => durationOf(seed, 9)),
    }),
    pauses: fc.oneof(fc.constant([0]), fc.array(fc.nat(30), { minLength: 1, maxLength: 6 })),
  })
  .map(({ morePages, slots, rowsPerSlot, tokensPerSquare, composition, ...given }) => {
    const least = Math.max(
      1,
      ...given.rows.map(({ promptTokens, newTokens }) => Math.ceil((promptTokens + newTokens) / given.pageTokens)),
    );
    const [pages = least, ...laterPages] = morePages.map((more) => least + more);
    const layers = given.counts.reduce((sum, count) => sum + count, 0);
    return {
      ...PLACES,
      ...given,
      pages,
      laterPages: laterPages.slice(0, given.counts.length - 1),
      pipeline: randomPipeline(composition, given.aheads),
      grid: { layers, slots, rowsPerSlot, tokensPerSquare },
    };
  });

/** Positions of each peer's first layer that were computed. */
const computed = (peers: readonly SimulatedPeer[]): number[] =>
  peers.map(({ contents, setup }) => {
    const { first } = layerBounds(setup.grid);
    return [...contents.rows.values()].reduce((sum, row) => sum + (row.computed.get(first) ?? 0), 0);
  });

describe('rows that share prefixes, their layers divided over simulated devices', () => {
  test('whatever they share, wherever the layers are cut: each sees its own tokens, paths are valid, all pages come back', async () => {
    await fc.assert(
      fc.asyncProperty(rings, async (given) => {
        await runAndJudgePeers(given);
      }),
      { numRuns: tries(50, 150) },
    );
  });

  test('whichever task fails, on whichever device: all end, and nothing is kept', async () => {
    await fc.assert(
      fc.asyncProperty(rings, fc.nat(3), fc.integer({ min: 1, max: 200 }), async (given, where, failing) => {
        const at = where % given.counts.length;
        let begun = 0;
        const peers = simulatedPeers({
          ...given,
          fail: (peer) => () => (peer === at && ++begun === failing ? 'it broke' : undefined),
        });
        const { results, errors } = await settled(peers);
        judgeResults(given.rows, results);
        if (begun < failing) expect(errors).toEqual(errors.map(() => undefined));
        else
          for (const error of errors)
            expect(error === undefined || error instanceof PeerError || error instanceof TaskError).toBe(true);
      }),
      { numRuns: tries(40, 120) },
    );
  });

  test('whenever somebody unsubscribes: the others end well, and nothing is kept', async () => {
    await fc.assert(
      fc.asyncProperty(rings, fc.nat(200), async (given, turns) => {
        const { results, errors } = await settled(simulatedPeers(given), turns);
        judgeResults(given.rows, results);
        expect(errors).toEqual(errors.map(() => undefined));
      }),
      { numRuns: tries(40, 120) },
    );
  });

  const grid = { layers: 4, slots: 2, rowsPerSlot: 8, tokensPerSquare: 400 };
  const plenty = { ...PLACES, grid, pageTokens: 4, pages: 10_000, counts: [1, 1, 2], window: 8, ahead: 64 };
  const shared = Array.from({ length: 101 }, (_, i) => i);
  const rowsOf = (count: number): SimulatedRow[] =>
    Array.from({ length: count }, (_, row) => {
      const own = Array.from({ length: 6 }, (__, i) => 1000 + 50 * row + i);
      return { promptTokens: 107, newTokens: 3, prompt: [...shared, ...own] };
    });

  test.each([diagonalBlock(), zigZagBlock(), rowByRow()])(
    '$name: each device computes what all begin with once',
    async (schedule) => {
      const peers = await runAndJudgePeers({ ...plenty, schedule, rows: rowsOf(40) });
      expect(computed(peers)).toEqual(peers.map(() => 101 + 40 * (6 + 2)));
    },
  );

  test('what is kept for rows to come makes way on all devices where the poorest has no room', async () => {
    // One prefix after the other: that of the rows before is kept as long as there is room.
    const rows = Array.from({ length: 12 }, (_, row): SimulatedRow => {
      const prompt = Array.from({ length: 40 }, (_, i) => 1000 * Math.floor(row / 2) + i);
      return { promptTokens: 40, newTokens: 2, prompt };
    });
    const tight = {
      ...plenty,
      schedule: rowByRow(),
      rows,
      pages: 100,
      laterPages: [14, 100],
      ahead: 2,
      pauses: [0, 300],
    };
    const peers = await runAndJudgePeers(tight);
    for (const { pool } of peers) expect(pool.peakUsed.memory).toBeLessThanOrEqual(14);
  });

  test('two rings that use the memory of the same engines: what one keeps for rows to come makes way for the other', async () => {
    await fc.assert(
      fc.asyncProperty(rings, treesOfRows, fc.nat(60), async (given, others, turns) => {
        const lengths = others.map(({ promptTokens, newTokens }) =>
          Math.ceil((promptTokens + newTokens) / given.pageTokens),
        );
        const pages = given.pages + Math.max(0, ...lengths);
        const pools = given.counts.map((_, index) => new PagePool(pages + (index === 0 ? 20 : 0), given.pageTokens));
        const peers = simulatedPeers({ ...given, pools });
        const beside = simulatedPeers({ ...given, pools, rows: others });
        const subscribed = (all: readonly SimulatedPeer[]): Promise<unknown> =>
          Promise.all(all.map(({ results$ }) => lastValueFrom(results$.pipe(toArray()))));
        const first = subscribed(peers);
        for (let turn = 0; turn < turns; turn++) await new Promise((resolve) => setImmediate(resolve));
        await inTime(Promise.all([first, subscribed(beside)]));
        await inTime(Promise.all([...peers, ...beside].map(({ run }) => run.drained)));
        for (const { nothingLeft } of [...peers, ...beside]) nothingLeft();
      }),
      { numRuns: tries(35, 100) },
    );
  });

  test('without sharing nothing is shared', async () => {
    const peers = await runAndJudgePeers({
      ...plenty,
      sharePrefixes: false,
      schedule: diagonalBlock(),
      rows: rowsOf(10),
    });
    expect(computed(peers)).toEqual(peers.map(() => 10 * (107 + 2)));
  });
});
