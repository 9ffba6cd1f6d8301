import { expect, test } from '@jest/globals';
import { RunWatch } from '../../src/cli/RunWatch.js';
import { withFlags } from '../../src/cli/exitCodes.js';
import type { RowInput, RowResult } from '../../src/Row.js';
import { collect } from '../jobs/support/files.js';

const answer = (index: number, text: string): RowResult => ({
  id: index + 1,
  index,
  text,
  tokens: [],
  finishReason: 'stop',
  usage: { promptTokens: 1, completionTokens: 1 },
});
const failure = (index: number, message: string): RowResult => ({
  ...answer(index, ''),
  finishReason: 'error',
  error: { code: 'invalid-json', message },
});

async function* each<T>(...values: readonly T[]): AsyncGenerator<T> {
  yield* values;
}

async function words(
  rows: readonly RowInput[],
  results: readonly RowResult[],
  hasChatTemplate: boolean,
  rawText = true,
  hasTokenizer = true,
): Promise<string[]> {
  const watch = new RunWatch(rawText);
  expect(await collect(watch.rows(each(...rows)))).toEqual(rows);
  expect(await collect(watch.results(each(...results)))).toEqual(results);
  return watch.words(hasChatTemplate, hasTokenizer);
}

test('the first errors, and how many more there are', async () => {
  expect(
    await words([], [answer(0, 'fine'), ...[1, 2, 3, 4, 5].map((index) => failure(index, `line ${index}`))], false),
  ).toEqual([
    'row 2: invalid-json: line 1',
    'row 3: invalid-json: line 2',
    'row 4: invalid-json: line 3',
    'and 2 more with an error',
  ]);
  expect((await words([], [failure(0, 'x'.repeat(1000))], false))[0]?.length).toBeLessThan(330);
});

test('raw text for a chat model is told, unless it is meant, or a line is a message already', async () => {
  const raw = [{ prompt: 'What is the capital of France?' }];
  expect((await words(raw, [answer(0, '')], true))[0]).toMatch(
    /^hint: 1 prompt went to a chat model as raw text; --chat on/,
  );
  expect((await words([{ fields: { subject: 'x' } }], [answer(0, '')], true))[0]).toMatch(/^hint: 1 prompt went/);
  expect(await words(raw, [answer(0, 'x')], false)).toEqual([]);
  expect(await words(raw, [answer(0, 'x')], true, false)).toEqual([]);
  expect(
    await words(
      [
        { prompt: 'a line', chat: 'auto' },
        { fields: { prompt: 'a line' }, chat: 'auto' },
        { messages: [] },
        { tokens: [1] },
      ],
      [answer(0, 'x')],
      true,
    ),
  ).toEqual([]);
});

test('many empty answers are told; a few are not', async () => {
  expect(await words([], [answer(0, ' '), answer(1, 'x')], false)).toEqual([
    'hint: 1 of 2 answers are empty: the model ended them at once; see --ignore-eos, --stop and --chat',
  ]);
  expect(await words([], [answer(0, '')], false, true, false)).toEqual([]);
  expect(await words([], [answer(0, ''), ...[1, 2, 3, 4, 5].map((index) => answer(index, 'x'))], false)).toEqual([]);
});

test.each([
  ['gpuMemory: found 4 GiB', '--gpu-memory: found 4 GiB'],
  ['x exists; `resume` goes on with it', 'x exists; --resume goes on with it'],
  ['works with 1 KiB (`gpuMemory: 1024`)', 'works with 1 KiB (--gpu-memory 1024)'],
  ['`overwrite: true` begins anew', '--overwrite begins anew'],
  ['`columns prompt=COLUMN` says', '--columns prompt=COLUMN says'],
  ['tokens: found 3', 'tokens: found 3'],
  ['run `npm run build`', 'run `npm run build`'],
  ['a file: `resume`d', 'a file: --resumed'],
])('%s, in the words of the command line', (message, expected) => {
  expect(withFlags(message, new Set(['--gpu-memory', '--resume', '--overwrite', '--columns']))).toBe(expected);
});

test('an answer that calls tools is none that is empty', async () => {
  const call = { id: 'c', type: 'function', function: { name: 'f', arguments: '{}' } } as const;
  expect(await words([], [{ ...answer(0, ''), toolCalls: [call], finishReason: 'tool_calls' }], true, false)).toEqual(
    [],
  );
  expect(await words([], [answer(0, '')], true, false)).toHaveLength(1);
});
