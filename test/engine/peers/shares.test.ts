import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { PeerError, TaskError } from '../../../src/errors/engineErrors.js';
import { runs } from '../../support/arbitraryRuns.js';
import { judgeResults } from '../../support/judgedRun.js';
import { runAndJudgePeers, settled, simulatedPeers, type PeersSetup } from '../../support/simulatedPeers.js';

/** Runs of every kind that is valid, each layer shared by two to four devices. */
const rings: fc.Arbitrary<PeersSetup> = runs.chain((given) =>
  fc
    .record({
      engines: fc.integer({ min: 2, max: 4 }),
      sums: fc.constantFrom(1 as const, 2 as const),
      linkCapacity: fc.integer({ min: 1, max: 3 }),
      lacks: fc.nat(30),
      fewer: fc.nat(3),
      latencySeconds: fc.option(fc.nat(9), { nil: undefined }),
    })
    .map(({ engines, sums, linkCapacity, lacks, fewer, latencySeconds }) => {
      const least = Math.ceil(29 / given.pageTokens);
      const later = Array.from({ length: engines - 1 }, (_, index) => index);
      return {
        ...given,
        counts: Array.from({ length: engines }, () => given.grid.layers),
        sums,
        linkCapacity,
        ...(latencySeconds !== undefined && { latencySeconds }),
        laterSlots: later.map((index) => Math.max(1, given.grid.slots - ((fewer * (index + 1)) % 4))),
        laterPages: later.map((index) => Math.max(least, given.pages - lacks * index)),
      };
    }),
);

describe('layers shared by simulated devices', () => {
  test('whatever the run: each path is valid, and everything is given back', async () => {
    await fc.assert(
      fc.asyncProperty(rings, async (given) => {
        await runAndJudgePeers(given);
      }),
      { numRuns: 150 },
    );
  }, 120_000);

  test('whichever task fails, on whichever device: that one says so, all others end too, and nothing is kept', async () => {
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
        if (begun < failing) expect([results.length, errors]).toEqual([given.rows.length, errors.map(() => undefined)]);
        else {
          expect(errors[at]).toBeInstanceOf(TaskError);
          errors.forEach((error, peer) => {
            if (peer !== at)
              expect(error === undefined || error instanceof PeerError || error instanceof TaskError).toBe(true);
          });
          if (results.length < given.rows.length) for (const error of errors) expect(error).toBeDefined();
        }
      }),
      { numRuns: 100 },
    );
  }, 60_000);

  test('whenever somebody unsubscribes: the others end well, and nothing is kept', async () => {
    await fc.assert(
      fc.asyncProperty(rings, fc.nat(120), async (given, turns) => {
        const { results, errors } = await settled(simulatedPeers(given), turns);
        judgeResults(given.rows, results);
        expect(errors).toEqual(errors.map(() => undefined));
      }),
      { numRuns: 100 },
    );
  }, 60_000);
});
