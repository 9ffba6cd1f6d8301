import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import type { ActivationLink } from '../../../src/engine/peers/ActivationLink.js';
import type { PeerMessage } from '../../../src/engine/peers/PeerMessage.js';
import { PeerError, TaskError } from '../../../src/errors/engineErrors.js';
import { QUEUE_NAMES } from '../../../src/engine/grid/Task.js';
import { maxInFlight } from '../../../src/operators/maxInFlight.js';
import { overlap } from '../../../src/operators/overlap.js';
import { runs } from '../../support/arbitraryRuns.js';
import { expectEnds } from '../../support/expectEnds.js';
import { judgeResults } from '../../support/judgedRun.js';
import { runAndJudgePeers, settled, simulatedPeers, type PeersSetup } from '../../support/simulatedPeers.js';
import { tries } from '../../support/tries.js';

/** Runs of every kind that is valid, their layers divided over two to four devices. */
const rings: fc.Arbitrary<PeersSetup> = runs
  .filter(({ grid }) => grid.layers > 1)
  .chain((given) =>
    fc
      .record({
        cuts: fc.array(fc.boolean(), { minLength: given.grid.layers - 1, maxLength: given.grid.layers - 1 }),
        linkCapacity: fc.integer({ min: 1, max: 3 }),
        lacks: fc.nat(30),
        fewer: fc.nat(3),
        latencySeconds: fc.option(fc.nat(9), { nil: undefined }),
        microBatches: fc.option(fc.integer({ min: 1, max: given.grid.slots }), { nil: undefined }),
      })
      .map(({ cuts, linkCapacity, lacks, fewer, latencySeconds, microBatches }) => {
        const counts = [1];
        for (const cut of cuts.some(Boolean) ? cuts : cuts.with(0, true)) {
          if (cut) counts.push(1);
          else counts[counts.length - 1] = (counts.at(-1) ?? 0) + 1;
        }
        const least = Math.ceil(29 / given.pageTokens);
        return {
          ...given,
          counts,
          linkCapacity,
          microBatches,
          ...(latencySeconds !== undefined && { latencySeconds }),
          laterSlots: counts.slice(1).map((_, index) => Math.max(1, given.grid.slots - ((fewer * (index + 1)) % 4))),
          laterPages: counts.slice(1).map((_, index) => Math.max(least, given.pages - lacks * index)),
        };
      }),
  );

describe('layers divided over simulated devices', () => {
  test('whatever the run and wherever the layers are cut: each path is valid, that of all together is, and everything is given back', async () => {
    await fc.assert(
      fc.asyncProperty(rings, async (given) => {
        await runAndJudgePeers(given);
      }),
      { numRuns: tries(50, 150) },
    );
  });

  test('so it is where what peers send and what is read is bounded', async () => {
    await fc.assert(
      fc.asyncProperty(rings, fc.constantFrom(...QUEUE_NAMES), async (given, queue) => {
        await runAndJudgePeers({
          ...given,
          // How far stages run ahead is not judged then.
          simulation: { ...given.simulation, unordered: true },
          pipeline: (run) => overlap(maxInFlight(run, { queue, tasks: 1 }), given.pipeline(run)),
        });
      }),
      { numRuns: tries(35, 100) },
    );
  });

  expectEnds(rings);

  test.each(['source', 'sink'] as const)(
    'whichever %s breaks, after however many messages: all end with an error, and nothing is kept',
    async (which) => {
      await fc.assert(
        fc.asyncProperty(rings, fc.nat(3), fc.nat(60), async (given, where, messages) => {
          const at = where % given.counts.length;
          let broken = false;
          const peers = simulatedPeers({
            ...given,
            wrapLink: (link, from) => (from === at ? breaking(link, which, messages, () => (broken = true)) : link),
          });
          const { results, errors } = await settled(peers);
          judgeResults(given.rows, results);
          if (!broken) expect(errors).toEqual(errors.map(() => undefined));
          else if (results.length < given.rows.length) for (const error of errors) expect(error).toBeDefined();
          for (const error of errors)
            expect(error === undefined || error instanceof PeerError || error instanceof TaskError).toBe(true);
        }),
        { numRuns: tries(35, 100) },
      );
    },
  );

  test.each(['begin', 'head'] as const)(
    '%s at a wrong time, back at the first engine: all end with an error, and nothing is kept',
    async (kind) => {
      await fc.assert(
        fc.asyncProperty(
          rings.filter(({ rows }) => rows.length > 0),
          fc.nat(20),
          async (given, after) => {
            let wrong = false;
            const peers = simulatedPeers({
              ...given,
              wrapLink: (link, from) =>
                from === given.counts.length - 1 ? mistimed(link, kind, after, () => (wrong = true)) : link,
            });
            const { results, errors } = await settled(peers);
            judgeResults(given.rows, results);
            if (wrong && results.length < given.rows.length) expect(errors[0]).toBeInstanceOf(PeerError);
          },
        ),
        { numRuns: tries(20, 50) },
      );
    },
  );
});

/** A link that gives what is to come first once more after some messages, or a head in its place. */
function mistimed(
  { source, sink }: ActivationLink,
  kind: 'begin' | 'head',
  after: number,
  onWrong: () => void,
): ActivationLink {
  return {
    sink,
    source: (async function* () {
      let begin: PeerMessage | undefined;
      let left = after;
      for await (const message of source) {
        begin ??= message;
        if (kind === 'head') {
          onWrong();
          yield { kind: 'head', pass: 0, slot: 0, output: { sampled: new Map(), scored: new Map() } };
        }
        yield message;
        if (left-- !== 0 || kind !== 'begin') continue;
        onWrong();
        yield begin;
      }
    })(),
  };
}

/** A link of which an end fails after some messages. */
function breaking(
  { source, sink }: ActivationLink,
  which: 'source' | 'sink',
  messages: number,
  onBreak: () => void,
): ActivationLink {
  let left = messages;
  const lost = (): Error => {
    onBreak();
    return new Error('the connection was lost');
  };
  if (which === 'sink')
    return { source, sink: { ...sink, send: (message) => (left-- > 0 ? sink.send(message) : Promise.reject(lost())) } };
  return {
    sink,
    source: {
      [Symbol.asyncIterator]: () => {
        const inner = source[Symbol.asyncIterator]();
        return {
          next: async () => {
            if (left-- <= 0) {
              await inner.return?.();
              throw lost();
            }
            return inner.next();
          },
          return: () => inner.return?.() ?? Promise.resolve({ done: true, value: undefined }),
        };
      },
    },
  };
}
