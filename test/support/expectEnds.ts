import { expect, test } from '@jest/globals';
import fc from 'fast-check';
import { PeerError, TaskError } from '../../src/errors/engineErrors.js';
import { judgeResults } from './judgedRun.js';
import { settled, simulatedPeers, type PeersSetup } from './simulatedPeers.js';

/** Tests that all devices of a ring end, and keep nothing, when one of them fails or nobody wants results any more. */
export function expectEnds(rings: fc.Arbitrary<PeersSetup>): void {
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
          // All hear of it, unless they were through.
          if (results.length < given.rows.length) for (const error of errors) expect(error).toBeDefined();
        }
      }),
      { numRuns: 100 },
    );
  });

  test('whenever somebody unsubscribes: the others end well, and nothing is kept', async () => {
    await fc.assert(
      fc.asyncProperty(rings, fc.nat(120), async (given, turns) => {
        const { results, errors } = await settled(simulatedPeers(given), turns);
        judgeResults(given.rows, results);
        expect(errors).toEqual(errors.map(() => undefined));
      }),
      { numRuns: 100 },
    );
  });
}
