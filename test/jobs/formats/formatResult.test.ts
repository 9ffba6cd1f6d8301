import { expect, test } from '@jest/globals';
import { resultLine } from '../../../src/jobs/formats/formatResult.js';
import { ROW_LIMITS } from '../../../src/model/files/limits.js';
import type { AnyResult } from '../../../src/Results.js';

const result: AnyResult = {
  id: 'a',
  index: 7,
  sample: 1,
  text: 'so',
  tokens: [1, 2],
  finishReason: 'stop',
  usage: { promptTokens: 3, completionTokens: 2 },
};

test('a short result is a line at once', () => {
  expect(resultLine(result)).toEqual({
    line: '{"id":"a","index":7,"sample":1,"text":"so","tokens":[1,2],"finishReason":"stop","usage":{"promptTokens":3,"completionTokens":2}}\n',
    failed: false,
  });
});

test('a long one is the same line', async () => {
  const carry = { note: 'é'.repeat(2 ** 21) };
  const { line, failed } = await resultLine({ ...result, carry });
  expect(failed).toBe(false);
  expect(JSON.parse(String(line))).toMatchObject({ id: 'a', row: carry });
});

test('a long one gives others their turn before it is looked through', async () => {
  let turns = 0;
  let next = setImmediate(function turn() {
    turns += 1;
    next = setImmediate(turn);
  });
  await resultLine({ ...result, carry: { note: 'é'.repeat(2 ** 21) } });
  clearImmediate(next);
  expect(turns).toBeGreaterThan(1);
});

test('what it carries is written in a turn after the one in which that was counted', async () => {
  let turned = false;
  let turnedBefore: boolean | undefined;
  const value = {
    toJSON: () => {
      turnedBefore ??= turned;
      return 1;
    },
  };
  setImmediate(() => {
    turned = true;
  });
  await resultLine({
    ...result,
    carry: { ...Object.fromEntries(Array.from({ length: 30_000 }, (_, at) => [`c${at}`, ''])), value },
  });
  expect(turnedBefore).toBe(true);
});

test.each<[string, Partial<AnyResult>]>([
  ['texts', { carry: { note: 'x'.repeat(ROW_LIMITS.resultBytes) } }],
  ['more texts than a string may hold', { carry: { notes: Array.from({ length: 64 }, () => 'x'.repeat(2 ** 24)) } }],
  ['objects', { carry: { note: Array.from({ length: 500_000 }, () => ({})) } }],
  [
    'log-probabilities',
    { logprobs: Array.from({ length: 300_000 }, () => ({ token: 1, logprob: -0.123456789012345, top: [] })) },
  ],
])('what resume would not read is a row with an error: %s', async (_, more) => {
  const { line, failed } = await resultLine({ ...result, ...more });
  expect(failed).toBe(true);
  expect(JSON.parse(String(line))).toEqual({
    id: 'a',
    index: 7,
    sample: 1,
    text: '',
    tokens: [],
    finishReason: 'error',
    usage: result.usage,
    error: { code: 'limit', message: expect.stringContaining('found a result of more than 24 MiB') },
  });
});
