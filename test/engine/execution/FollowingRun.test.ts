import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { PeerError } from '../../../src/errors/engineErrors.js';
import { SpillwayError } from '../../../src/errors/SpillwayError.js';
import { ALL_ON_CPU } from '../../../src/engine/memory/movement.js';
import { diagonalBlock } from '../../../src/engine/schedules/blockSchedules.js';
import type { PeerMessage } from '../../../src/engine/peers/PeerMessage.js';
import { defaultPipeline } from '../../../src/operators/defaultPipeline.js';
import { changed, changes } from '../../support/changedMessages.js';
import { inTime } from '../../support/judgedRun.js';
import { randomSchedule } from '../../support/randomSchedule.js';
import { settled, simulatedPeers, type SimulatedPeer, type PeersSetup } from '../../support/simulatedPeers.js';

/** Turns of the event loop in which a run has read what was sent; one that waits for more is left then. */
const TURNS = 1500;
/** Turns after which a message comes although what it answers has not been said. */
const PATIENCE = 30;

/**
 * Three groups of rows that begin alike, in pages of which there are few: some are freed again while the run goes on.
 */
const rows = Array.from({ length: 14 }, (_, row) => {
  const prompt = [...Array.from({ length: 45 }, (__, i) => 100 * (row % 3) + i), 1000 + row, 2000 + row];
  return { promptTokens: prompt.length, newTokens: 1 + (row % 3), prompt };
});
const setup: PeersSetup = {
  rows,
  schedule: diagonalBlock(),
  placement: ALL_ON_CPU,
  pageTokens: 4,
  pages: 36,
  counts: [1, 2],
  window: 6,
  ahead: 14,
  sharePrefixes: true,
  grid: { layers: 3, slots: 2, rowsPerSlot: 3, tokensPerSquare: 40 },
  pipeline: defaultPipeline,
  aheads: { weights: 1, cache: 1, activations: 1 },
};

/** What the first of two devices sends, and what each message comes after: so many of the second one's. */
interface Talk {
  readonly messages: readonly PeerMessage[];
  readonly after: readonly number[];
}

async function honest(given: PeersSetup): Promise<Talk> {
  const messages: PeerMessage[] = [];
  const after: number[] = [];
  let answers = 0;
  const peers = simulatedPeers({
    ...given,
    wrapLink: (link, from) => {
      const send = (message: PeerMessage): Promise<void> => {
        if (from > 0) answers++;
        else {
          messages.push(structuredClone(message));
          after.push(answers);
        }
        return link.sink.send(message);
      };
      return { ...link, sink: { ...link.sink, send } };
    },
  });
  const { results, errors } = await settled(peers);
  expect([results.length, errors]).toEqual([given.rows.length, [undefined, undefined]]);
  return { messages, after };
}

/** The second device by itself, which hears what it is told, at the time when that was said, or a while later. */
function follower(given: PeersSetup, told: readonly unknown[], after: readonly number[]): SimulatedPeer {
  let answers = 0;
  const [first, second] = simulatedPeers({
    ...given,
    wrapLink: (link, from) => {
      if (from > 0) {
        const send = (): Promise<void> => {
          answers++;
          return Promise.resolve();
        };
        return { ...link, sink: { send, close: () => undefined } };
      }
      const source = (async function* () {
        for (const [index, message] of told.entries()) {
          const due = after[index] ?? 0;
          for (let turn = 0; turn < PATIENCE && answers < due; turn++)
            await new Promise((resolve) => setImmediate(resolve));
          yield message as PeerMessage;
        }
      })();
      return { ...link, source };
    },
  });
  if (!first || !second) throw new RangeError('two peers');
  first.run.close();
  return second;
}

async function outcomeOf(peer: SimulatedPeer): Promise<unknown> {
  const { run, results$ } = peer;
  const outcome = await new Promise<unknown>((resolve) => {
    const subscription = results$.subscribe({
      error: resolve,
      complete: () => {
        resolve('complete');
      },
    });
    const wait = (turns: number): void => {
      if (turns > 0)
        setImmediate(() => {
          wait(turns - 1);
        });
      else {
        subscription.unsubscribe();
        resolve('left');
      }
    };
    wait(TURNS);
  });
  await inTime(run.drained);
  expect(peer.pool.used).toEqual({ gpu: 0, memory: 0, disk: 0 });
  expect([...peer.lives.values()].filter(({ until }) => until === Infinity)).toEqual([]);
  return outcome;
}

/**
 * Values that a run could not have had of another one of the engine's: those of positions that it has never written.
 */
const unwritten = ({ contents }: SimulatedPeer): readonly string[] =>
  contents.wrong.filter((each) => each.includes('found undefined'));

/** What is said of sharing, put in another's place. */
const lies = fc
  .record({
    at: fc.nat(1000),
    from: fc.nat(1000),
    number: fc.nat(40),
    which: fc.constantFrom('sharing', 'prefix', 'sequence', 'newTokens', 'page', 'pages', 'own', 'copy'),
  })
  .map(({ at, from, which, number }) => (list: readonly unknown[]): unknown[] => {
    const kind = which === 'page' ? 'free' : 'open';
    const places = list.flatMap((message, index) =>
      (message as { kind?: unknown } | undefined)?.kind === kind ? [index] : [],
    );
    const [place, other] = [places[at % places.length], places[from % places.length]];
    if (place === undefined || other === undefined) return [...list];
    const [message, donor] = [list[place], list[other]] as [{ sharing?: object }, Record<string, unknown>];
    const sharing = { pages: [], own: [], ...message.sharing };
    if (which === 'page') return list.with(place, { ...message, page: number });
    if (which === 'pages' || which === 'own')
      return list.with(place, { ...message, sharing: { ...sharing, [which]: [number] } });
    if (which === 'copy')
      return list.with(place, { ...message, sharing: { ...sharing, copy: { page: number, position: from % 48 } } });
    return list.with(place, { ...message, [which]: donor[which] });
  });
const anyChange = changes.map((change) => (list: readonly unknown[]) => changed(list, change));
const broken = fc.array(fc.oneof(lies, anyChange), { minLength: 1, maxLength: 3 });

describe.each([diagonalBlock(), randomSchedule(3), randomSchedule(8)])(
  '$name: what is told, changed in whatever way',
  (schedule) => {
    test('an error of ours or none, nothing unwritten is read, and all pages come back', async () => {
      const given = { ...setup, schedule };
      const { messages, after } = await honest(given);
      const kinds = new Set(messages.map(({ kind }) => kind));
      expect([...kinds].sort()).toEqual(['begin', 'close', 'free', 'hidden', 'open', 'sweep']);
      expect(messages.some((message) => message.kind === 'open' && message.prefix)).toBe(true);
      const replay = follower(given, messages, after);
      expect(await outcomeOf(replay)).toBe('complete');
      expect(replay.contents.wrong).toEqual([]);

      let refused = 0;
      await fc.assert(
        fc.asyncProperty(broken, async (list) => {
          const peer = follower(
            given,
            list.reduce<unknown[]>((told, change) => change(told), [...messages]),
            after,
          );
          const outcome = await outcomeOf(peer);
          if (typeof outcome !== 'string') expect(outcome).toBeInstanceOf(SpillwayError);
          expect(unwritten(peer)).toEqual([]);
          if (outcome instanceof SpillwayError && /sharing|free/.test(outcome.message)) refused++;
        }),
        { numRuns: 120 },
      );
      expect(refused).toBeGreaterThan(10);
    });
  },
);

test('pages that rows share, where not all engines can: an error, and nothing is kept', async () => {
  const { messages, after } = await honest(setup);
  const told = messages.map((message) => (message.kind === 'begin' ? { ...message, sharesPages: false } : message));
  const words = 'open.sharing: found pages that rows share, expected none: not all engines can';
  expect(await outcomeOf(follower(setup, told, after))).toEqual(new PeerError(words));
});

test('a row longer than the cache holds here: an error, and nothing is kept', async () => {
  const { messages, after } = await honest(setup);
  const told = messages.map((message) =>
    message.kind === 'open' ? { ...message, newTokens: message.newTokens && 99 } : message,
  );
  expect(await outcomeOf(follower(setup, told, after))).toEqual(
    new PeerError(
      'open: found row 2 of 145 positions, expected at most the 144 that the KV cache of this engine holds',
    ),
  );
});

test('hidden states that were announced and do not come end the run: it does not wait for them', async () => {
  const { messages, after } = await honest(setup);
  const places = messages.flatMap(({ kind }, index) => (kind === 'hidden' ? [index] : []));
  for (const place of [0, places.length >> 1, places.length - 1].map((at) => places[at] ?? 0)) {
    const peer = follower(setup, messages.toSpliced(place, 1), after.toSpliced(place, 1));
    expect(await outcomeOf(peer)).toBeInstanceOf(PeerError);
  }
});

test('a row that is closed twice while it is in use, and another one never, is an error: that one would stay open', async () => {
  const { messages, after } = await honest(setup);
  const places = messages.flatMap(({ kind }, index) => (kind === 'close' ? [index] : []));
  const last = places.at(-1) ?? 0;
  for (const place of places.slice(0, -1)) {
    const close = messages[place] as PeerMessage;
    const twice = messages.toSpliced(last, 1).toSpliced(place, 1, close, close);
    // At once after what was sent before: its last batches are under way.
    const soon = after[place - 1] ?? 0;
    const outcome = await outcomeOf(follower(setup, twice, after.toSpliced(last, 1).toSpliced(place, 1, soon, soon)));
    expect(outcome).toBeInstanceOf(SpillwayError);
  }
});
