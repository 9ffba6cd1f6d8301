import { expect, test } from '@jest/globals';
import { activationLink, type PeerMessage } from '../../../src/index.js';
import { GREEDY } from '../../../src/engine/execution/greedy.js';
import { PromptedRows } from '../../../src/engine/execution/PromptedRows.js';
import type { RunRow } from '../../../src/engine/execution/RunRow.js';
import type { BeginMessage } from '../../../src/engine/peers/PeerMessage.js';
import type { MovingMemory } from '../../../src/engine/peers/pageStretches.js';
import { MOST_PAGES_BYTES } from '../../../src/plan/reserves.js';

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

const row = (tokens: number, more: Partial<RunRow<never>> = {}): RunRow<never> => ({
  sequence: { ...GREEDY, tokens: new Array<number>(tokens).fill(1), capacityTokens: tokens + 1 },
  newTokens: 1,
  accept: () => undefined,
  ...more,
});
const pages = (number: number, first: number, last: boolean, bytes: number): PeerMessage => ({
  kind: 'pages',
  row: number,
  first,
  last,
  values: new Uint8Array(bytes),
});

interface Prompted {
  readonly rows: PromptedRows<never>;
  readonly answer: (message: PeerMessage) => void;
  readonly fail: (error: Error) => void;
  readonly asked: AsyncIterator<PeerMessage>;
  /** What became of the source. */
  readonly seen: { read: number; left: boolean; gaveBack: boolean };
}

/** What prompts on their way may take. */
const MOVING_BYTES = 3 * MOST_PAGES_BYTES;

/** Rows of a source that throws what `thrown` has, if anything, after the last one. */
function prompted(given: readonly RunRow<never>[], pageBytes = 8, thrown?: { readonly error: Error }): Prompted {
  const [there, back] = [activationLink(), activationLink()];
  const seen = { read: 0, left: false, gaveBack: false };
  const keep = (): MovingMemory => ({ bytes: MOVING_BYTES, giveBack: () => void (seen.gaveBack = true) });
  const source: AsyncIterator<RunRow<never>> = {
    next: () => {
      const value = given[seen.read++];
      if (value) return Promise.resolve({ done: false, value });
      // Whatever a source throws.
      return thrown ? Promise.reject(thrown.error) : Promise.resolve({ done: true, value: undefined });
    },
    return: () => {
      seen.left = true;
      return Promise.resolve({ done: true, value: undefined });
    },
  };
  const peers = { source: back.source, sink: there.sink };
  return {
    rows: new PromptedRows(source, { peers, begin, pageTokens: 32, pageBytes, mostAsked: 4, keep }),
    answer: (message) => void back.sink.send(message).catch(() => undefined),
    fail: (error) => {
      back.sink.close(error);
    },
    asked: there.source[Symbol.asyncIterator](),
    seen,
  };
}

test('rows before a failure of their source come with their pages, and then what it threw, as it is', async () => {
  const noRow = new RangeError('no row');
  const { rows, answer, asked } = prompted([row(3), row(40)], 8, { error: noRow });
  const first = rows.next();
  for (const kind of ['begin', 'prompt', 'prompt'] as const)
    expect(await asked.next()).toMatchObject({ value: { kind } });
  answer({ ...begin, engines: 2 });
  answer(pages(0, 0, true, 8));
  expect((await first).value?.sequence.given?.tokens).toBe(2);
  const second = rows.next();
  answer(pages(1, 0, true, 16));
  expect((await second).value?.sequence.given?.tokens).toBe(39);
  await expect(rows.next()).rejects.toBe(noRow);
});

test('where the other engine fails, no more rows are read, and their source is let go with the run', async () => {
  const { rows, fail, seen } = prompted([row(3), row(3), row(3), row(3), row(3), row(3)]);
  const first = rows.next();
  fail(new Error('it died'));
  await expect(first).rejects.toThrow('it died');
  const { read } = seen;
  expect(read).toBeLessThanOrEqual(5);
  rows.close();
  expect(seen).toEqual({ read, left: true, gaveBack: true });
});

test('of one prompt after the other: pages of a second one before the first one is whole end the run', async () => {
  const { rows, answer } = prompted([row(65), row(65)], MOST_PAGES_BYTES);
  const first = rows.next();
  answer({ ...begin, engines: 2 });
  answer(pages(0, 0, false, MOST_PAGES_BYTES));
  answer(pages(1, 0, false, MOST_PAGES_BYTES));
  await expect(first).rejects.toThrow('pages: found those of prompt 1, expected the others of prompt 0');
  rows.close();
});

test('that there is no room for one prompt may be said between the pages of another', async () => {
  const { rows, answer } = prompted([row(65), row(65)], MOST_PAGES_BYTES);
  const first = rows.next();
  answer({ ...begin, engines: 2 });
  answer(pages(0, 0, false, MOST_PAGES_BYTES));
  answer(pages(1, 0, true, 0));
  answer(pages(0, 1, true, MOST_PAGES_BYTES));
  expect((await first).value?.sequence.given).toBeUndefined();
  expect((await rows.next()).value?.sequence.given?.take()).toMatchObject([
    { first: 0, count: 1 },
    { first: 1, count: 1 },
  ]);
  rows.close();
});

test('a prompt for which there is no room stays with the other engine until a row has its place', async () => {
  const { rows, answer } = prompted([row(65), row(65)], MOST_PAGES_BYTES);
  const first = rows.next();
  answer({ ...begin, engines: 2 });
  for (const number of [0, 1]) for (const page of [0, 1]) answer(pages(number, page, page === 1, MOST_PAGES_BYTES));
  const placed = await first;
  const second = rows.next();
  expect(await Promise.race([second, new Promise((resolve) => setImmediate(() => resolve('waits')))])).toBe('waits');
  expect(placed.value?.sequence.given?.take()).toHaveLength(2);
  expect((await second).value?.sequence.given?.take()).toHaveLength(2);
  rows.close();
});

test.each([
  ['one token', row(1)],
  ['rows that go on after it', row(3, { goesOn: true })],
  ['no new token', row(3, { newTokens: 0 })],
  ['more pages than may be on their way', row(32 * 4)],
])('a prompt with %s is not asked for', async (_, only) => {
  const { rows } = prompted([only], MOST_PAGES_BYTES);
  expect((await rows.next()).value).toBe(only);
  expect((await rows.next()).done).toBe(true);
});
