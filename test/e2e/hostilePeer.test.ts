import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { activationLink, Engine, SpillwayError, type Row, type RowResult, type PeerMessage } from '../../src/index.js';
import { changes, followChanged } from '../support/changedMessages.js';
import { model } from './support.js';

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
  returned: (message: PeerMessage) => PeerMessage = (message) => message,
): Promise<RowResult[]> {
  const [there, back] = [activationLink(), activationLink()];
  const sink = {
    send: (message: PeerMessage) => {
      onSent(structuredClone(message));
      return there.sink.send(message);
    },
    close: (error?: Error) => there.sink.close(error),
  };
  const results$ = {
    send: (message: PeerMessage) => back.sink.send(returned(message)),
    close: (error?: Error) => back.sink.close(error),
  };
  const following = behind.follow({ source: there.source, sink: results$ });
  const results: RowResult[] = [];
  try {
    for await (const row of ahead.generate(rows, { peers: { source: back.source, sink } })) results.push(row);
  } catch (error) {
    await following.catch(() => undefined);
    throw error;
  }
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
        const outcome = await followChanged(engine, messages, list);
        if (outcome !== undefined) expect(outcome).toBeInstanceOf(SpillwayError);
      }),
      { numRuns: 60 },
    );
    await expect(honestRun(rows, first, second)).resolves.toEqual(expected);
  });
});

type Head = Extract<PeerMessage, { kind: 'head' }>;
type Sampled = Head['output']['sampled'] extends ReadonlyMap<number, infer Each> ? Each : never;

/** The same head with its first row's token changed. */
const withFirst = ({ output, ...head }: Head, change: Partial<Sampled>): Head => {
  const [[row, token] = [0, undefined]] = output.sampled;
  const sampled = new Map(output.sampled);
  if (token) sampled.set(row, { ...token, ...change });
  return { ...head, output: { ...output, sampled } };
};
const others = (count: number): Float32Array => new Float32Array(count);

test.each<[string, (head: Head) => Head, RegExp]>([
  ['a token beyond the vocabulary', (head) => withFirst(head, { token: 1e6 }), /found token 1000000 for row/],
  [
    'alternatives that nobody asked for',
    (head) => withFirst(head, { top: [{ token: 1, logprob: -1 }] }),
    /found 1 alternatives for row \d+ in pass 0, expected at most 0/,
  ],
  [
    'an embedding that nobody asked for',
    (head) => withFirst(head, { embedding: others(64) }),
    /found an embedding of 64 numbers for row \d+ in pass 0, expected none/,
  ],
  [
    'a row that is not in the batch',
    (head) => ({
      ...head,
      output: {
        ...head.output,
        sampled: new Map([...head.output.sampled, [999, { token: 1, logprob: NaN, top: [] }]]),
      },
    }),
    /found \d tokens and 0 scored rows in pass 0, expected \d and 0/,
  ],
  [
    'scores that nobody asked for',
    (head) => ({ ...head, output: { ...head.output, scored: new Map([[999, others(3)]]) } }),
    /found \d tokens and 1 scored rows in pass 0, expected \d and 0/,
  ],
  [
    'less than was asked for',
    (head) => ({ ...head, output: { ...head.output, sampled: new Map([...head.output.sampled].slice(1)) } }),
    /found nothing for row \d+ in pass 0, expected what it samples/,
  ],
])(
  'the engine of the last layers sends %s: the first one says so, and the next run is as ever',
  async (_, change, words) => {
    if (!first || !second) throw new Error('not open');
    const expected = await honestRun(short, first, second);
    let heads = 0;
    const returned = (message: PeerMessage): PeerMessage =>
      message.kind === 'head' && heads++ === 0 ? change(message) : message;
    await expect(honestRun(short, first, second, undefined, returned)).rejects.toThrow(words);
    await expect(honestRun(short, first, second)).resolves.toEqual(expected);
  },
);
