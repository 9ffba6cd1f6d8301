import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { activationLink, Engine, SpillwayError, type Row, type RowResult, type PeerMessage } from '../../src/index.js';
import { changed, changes } from '../support/changedMessages.js';
import { model } from './support.js';

/** Long enough for a follower to have read what was sent; one that waits for more is interrupted then. */
const WAIT_MILLISECONDS = 40;
const short: readonly Row[] = Array.from({ length: 6 }, (_, at) => ({
  id: at,
  tokens: [1, 3 + at, 7],
  maxNewTokens: 4,
}));
/** Rows whose first pages are the same, in two groups, and that copy the page in which that ends. */
const alike: readonly Row[] = Array.from({ length: 9 }, (_, at) => ({
  id: at,
  tokens: [...Array.from({ length: 60 }, (__, i) => (i * 17 + (at % 2) * 31 + 3) % 250), 100 + at],
  maxNewTokens: 3,
}));

let [first, second]: [Engine | undefined, Engine | undefined] = [undefined, undefined];

/** A run of both engines. @param onSent gets what the first one sends */
type OnSent = (message: PeerMessage) => void;

async function honestRun(
  rows: readonly Row[],
  ahead: Engine,
  behind: Engine,
  onSent: OnSent = () => undefined,
): Promise<RowResult[]> {
  const [there, back] = [activationLink(), activationLink()];
  const sink = {
    send: (message: PeerMessage) => {
      onSent(structuredClone(message));
      return there.sink.send(message);
    },
    close: (error?: Error) => there.sink.close(error),
  };
  const following = behind.follow({ source: there.source, sink: back.sink });
  const results: RowResult[] = [];
  for await (const row of ahead.generate(rows, { peers: { source: back.source, sink } })) results.push(row);
  await following;
  return results;
}

beforeAll(async () => {
  const options = { model: model('llama-Q8_0.gguf'), batchSize: 4 };
  first = await Engine.open({ ...options, layers: { first: 0, count: 1 } });
  second = await Engine.open({ ...options, layers: { first: 1, count: 1 } });
});
afterAll(async () => {
  await first?.close();
  await second?.close();
});

describe.each([
  ['rows', short],
  ['rows that share pages', alike],
] as const)('%s', (kind, rows) => {
  test('whatever an engine of the layers before sends: an error of ours or none, and everything is given back', async () => {
    if (!first || !second) throw new Error('not open');
    const engine = second;
    const messages: PeerMessage[] = [];
    const expected = await honestRun(rows, first, second, (message) => messages.push(message));
    expect(messages.some((message) => message.kind === 'open' && (message.sharing?.pages.length ?? 0) > 0)).toBe(
      kind !== 'rows',
    );
    await fc.assert(
      fc.asyncProperty(fc.array(changes, { minLength: 1, maxLength: 3 }), async (list) => {
        const sent = list.reduce<unknown[]>(changed, messages) as PeerMessage[];
        const source = (async function* () {
          yield* sent;
        })();
        const interrupt = new AbortController();
        const sink = { send: () => Promise.resolve(), close: () => undefined };
        const following = engine
          .follow({ source, sink }, { signal: interrupt.signal })
          .catch((error: unknown) => error);
        await Promise.race([following, sleep(WAIT_MILLISECONDS)]);
        interrupt.abort();
        const outcome = await following;
        if (outcome !== undefined) expect(outcome).toBeInstanceOf(SpillwayError);
      }),
      { numRuns: 60 },
    );
    await expect(honestRun(rows, first, second)).resolves.toEqual(expected);
  }, 30_000);
});
