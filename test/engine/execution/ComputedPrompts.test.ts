import { expect, test } from '@jest/globals';
import { activationLink, type PeerMessage } from '../../../src/index.js';
import { ComputedPrompts } from '../../../src/engine/execution/ComputedPrompts.js';
import type { GivenPages } from '../../../src/engine/grid/Device.js';
import type { HeadOutput } from '../../../src/engine/grid/Task.js';
import type { BeginMessage } from '../../../src/engine/peers/PeerMessage.js';

const begin = {
  kind: 'begin',
  model: { layers: 1, hiddenSize: 1, vocabularySize: 10, family: 'llama', contents: '' },
  nextLayer: 1,
  grid: { slots: 1, rowsPerSlot: 1, tokensPerSquare: 1 },
  engines: 1,
  streams: false,
  cache: { pageTokens: 32, diskShare: 0, mostDiskPages: 0 },
  pages: { gpu: 0, memory: 1, disk: 0 },
  sharesPages: true,
} satisfies BeginMessage;

/** What prompts on their way may take. */
const MOVING_BYTES = 1024;

function served(
  pageBytes: number,
  longest = 4,
): {
  readonly prompts: ComputedPrompts;
  readonly ask: (message: PeerMessage) => void;
  readonly answers: AsyncIterator<PeerMessage>;
} {
  const [there, back] = [activationLink(), activationLink()];
  const prompts = new ComputedPrompts({
    peers: { source: there.source, sink: back.sink },
    accept: (message) => ({ ...message, engines: 2 }),
    vocabularySize: 10,
    pageTokens: 32,
    pageBytes,
    longest: () => longest,
    keep: () => ({ bytes: MOVING_BYTES, giveBack: () => undefined }),
    read: (_row, { count }) => new Uint8Array(count * pageBytes),
  });
  return {
    prompts,
    ask: (message) => void there.sink.send(message).catch(() => undefined),
    answers: back.source[Symbol.asyncIterator](),
  };
}

const prompt = (row: number, tokens: number): PeerMessage => ({
  kind: 'prompt',
  row,
  tokens: new Array<number>(tokens).fill(1),
  promptTokens: tokens,
});
/** What the head found for rows. */
const sampled = (...rows: number[]): HeadOutput => ({
  sampled: new Map(rows.map((row) => [row, { token: 1, logprob: 0, top: [] }])),
  scored: new Map(),
});

test('a prompt without room is answered with no pages, and the next one computed', async () => {
  const { prompts, ask, answers } = served(8);
  for (const message of [begin, prompt(0, 5), prompt(1, 4)]) ask(message);
  const { value: row } = await prompts.next();
  expect(await answers.next()).toMatchObject({ value: { kind: 'begin', engines: 2 } });
  expect(await answers.next()).toMatchObject({
    value: { kind: 'pages', row: 0, last: true, values: new Uint8Array(0) },
  });
  expect(row?.accept(sampled(6), 7, 0)).toBeUndefined();
  const computed = row?.accept(sampled(6, 7), 7, 0);
  expect(computed).toMatchObject({ number: 1, pages: [{ first: 0, count: 1, values: new Uint8Array(8) }] });
});

test('no more prompts are let in than may be on their way; one always is', async () => {
  const { prompts, ask } = served(MOVING_BYTES);
  for (const message of [begin, prompt(0, 3), prompt(1, 3)]) ask(message);
  const { value: first } = await prompts.next();
  const second = prompts.next();
  expect(await Promise.race([second, new Promise((resolve) => setImmediate(() => resolve('waits')))])).toBe('waits');
  const computed = first?.accept(sampled(0), 0, 0);
  if (!computed || !('number' in computed)) throw new RangeError('not computed');
  await prompts.send(computed);
  expect((await second).value?.sequence.tokens).toHaveLength(3);
});

test('a prompt that takes more than all of them may is one without room', async () => {
  const { prompts, ask, answers } = served(MOVING_BYTES / 2, 100);
  for (const message of [begin, prompt(0, 66), prompt(1, 65)]) ask(message);
  expect((await prompts.next()).value?.sequence.tokens).toHaveLength(65);
  await answers.next();
  expect(await answers.next()).toMatchObject({ value: { kind: 'pages', row: 0, values: new Uint8Array(0) } });
});

test('what comes first, and after it, is what it has to be', async () => {
  const first = served(8);
  first.ask(prompt(0, 3));
  await expect(first.prompts.next()).rejects.toThrow('message: found "prompt", expected "begin"');
  const twice = served(8);
  twice.ask(begin);
  twice.ask(begin);
  await expect(twice.prompts.next()).rejects.toThrow('message: found "begin", expected "prompt"');
});

test('a page that a prompt, or what it begins with, does not fill begins empty: what stood there is not sent', async () => {
  const { prompts, ask } = served(8, 100);
  for (const message of [begin, prompt(0, 34), prompt(1, 33), prompt(2, 32), prompt(3, 3)]) ask(message);
  const given: (GivenPages | undefined)[] = [];
  for (let row = 0; row < 4; row++) given.push((await prompts.next()).value?.sequence.given);
  const empty = (first: number): object[] => [{ first, count: 1, values: new Uint8Array(8) }];
  // Of 33 tokens the last one is not sent, but its page may be copied for a prompt that goes on from there.
  expect(given.map((each) => each?.take())).toEqual([empty(1), empty(1), [], empty(0)]);
  expect([31, 64, 70].map((tokens) => given[0]?.beginning?.(tokens).take())).toEqual([empty(0), [], empty(2)]);
});
