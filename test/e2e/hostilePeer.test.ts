import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { activationLink, Engine, SpillwayError, type Row, type RowResult, type StageMessage } from '../../src/index.js';
import { model } from './support.js';

/** Long enough for a follower to have read what was sent; one that waits for more is interrupted then. */
const WAIT_MILLISECONDS = 40;
const rows: readonly Row[] = Array.from({ length: 6 }, (_, at) => ({ id: at, tokens: [1, 3 + at, 7], maxNewTokens: 4 }));

let [first, second]: [Engine | undefined, Engine | undefined] = [undefined, undefined];
const messages: StageMessage[] = [];
let expected: RowResult[];

/** A run of both engines. @param onSent gets what the first one sends */
async function honestRun(ahead: Engine, behind: Engine, onSent: (message: StageMessage) => void = () => undefined): Promise<RowResult[]> {
  const [there, back] = [activationLink(), activationLink()];
  const sink = {
    send: (message: StageMessage) => {
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
  expected = await honestRun(first, second, (message) => messages.push(message));
});
afterAll(async () => {
  await first?.close();
  await second?.close();
});

type Change = { readonly at: number; readonly how: 'drop' | 'repeat' | 'swap' | 'value'; readonly path: number; readonly value: unknown };

/** The value somewhere in a message, put in another's place. */
function withValue(whole: unknown, path: number, value: unknown): unknown {
  if (typeof whole !== 'object' || whole === null || ArrayBuffer.isView(whole) || path % 5 === 0) return value;
  const keys = Object.keys(whole);
  const key = keys[path % keys.length];
  if (key === undefined) return value;
  const copy: Record<string, unknown> | unknown[] = Array.isArray(whole) ? [...(whole as unknown[])] : { ...whole };
  (copy as Record<string, unknown>)[key] = withValue((whole as Record<string, unknown>)[key], Math.floor(path / keys.length), value);
  return copy;
}

function changed(list: readonly unknown[], { at, how, path, value }: Change): unknown[] {
  const place = at % list.length;
  if (how === 'drop') return list.toSpliced(place, 1);
  if (how === 'repeat') return list.toSpliced(place, 0, list[path % list.length]);
  if (how === 'swap') return list.with(place, list[path % list.length]).with(path % list.length, list[place]);
  return list.with(place, withValue(list[place], path, value));
}

const changes = fc.record<Change>({
  at: fc.nat(1000), how: fc.constantFrom('drop', 'repeat', 'swap', 'value', 'value'), path: fc.nat(100_000),
  value: fc.oneof(fc.constantFrom(undefined, null, NaN, -1, 0, 3, 2 ** 31, 2 ** 53, Infinity, 'x', new Float32Array(64)), fc.anything({ withMap: true, maxDepth: 1 })),
});

test('whatever an engine of the layers before sends: an error of ours or none, and everything is given back', async () => {
  if (!first || !second) throw new Error('not open');
  const engine = second;
  await fc.assert(
    fc.asyncProperty(fc.array(changes, { minLength: 1, maxLength: 3 }), async (list) => {
      const sent = list.reduce<unknown[]>(changed, messages) as StageMessage[];
      const source = (async function* () {
        yield* sent;
      })();
      const interrupt = new AbortController();
      const sink = { send: () => Promise.resolve(), close: () => undefined };
      const following = engine.follow({ source, sink }, { signal: interrupt.signal }).catch((error: unknown) => error);
      await Promise.race([following, sleep(WAIT_MILLISECONDS)]);
      interrupt.abort();
      const outcome = await following;
      if (outcome !== undefined) expect(outcome).toBeInstanceOf(SpillwayError);
    }),
    { numRuns: 60 },
  );
  await expect(honestRun(first, second)).resolves.toEqual(expected);
}, 30_000);
