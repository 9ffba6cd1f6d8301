import { describe, test } from '@jest/globals';
import fc from 'fast-check';
import { runs } from '../../support/arbitraryRuns.js';
import { expectEnds } from '../../support/expectEnds.js';
import { runAndJudgePeers, type PeersSetup } from '../../support/simulatedPeers.js';
import { tries } from '../../support/tries.js';

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
      byRows: fc.boolean(),
    })
    .map(({ engines, sums, linkCapacity, lacks, fewer, latencySeconds, byRows }) => {
      const least = Math.ceil(29 / given.pageTokens);
      const later = Array.from({ length: engines - 1 }, (_, index) => index);
      return {
        ...given,
        counts: Array.from({ length: engines }, () => given.grid.layers),
        sums,
        byRows,
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
      { numRuns: tries(15, 150) },
    );
  });

  expectEnds(rings);
});
