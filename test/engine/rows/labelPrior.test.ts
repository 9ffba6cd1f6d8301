import { expect, test } from '@jest/globals';
import { LabelPriors, type PromptWay } from '../../../src/engine/rows/labelPrior.js';
import type { ClassifyOptions } from '../../../src/Results.js';
import type { Row } from '../../../src/Row.js';
import { letterTokenizer } from '../../support/wordTokenizer.js';

/** The ways for which a prior is found out, and which of them each row has the prior of. */
async function found(
  rows: readonly Row[],
  options: ClassifyOptions = {},
): Promise<{ readonly ways: readonly PromptWay[]; readonly of: readonly number[] }> {
  const ways: PromptWay[] = [];
  const priors = new LabelPriors(options, letterTokenizer(), (way) => Promise.resolve([ways.push(way) - 1]));
  const of: number[] = [];
  for (const row of rows) of.push(...(await priors.of(row)));
  return { ways, of };
}
const raw = { chat: false };
const chat = { chat: true };

test('rows that come in one way have one prior: raw text and ids, or a conversation', async () => {
  const messages = [{ role: 'user', content: 'a' }];
  const rows: Row[] = [
    { prompt: 'a' },
    { messages },
    { tokens: [1] },
    { prompt: 'a', chat: 'auto' },
    { prompt: 'b', chat: true },
    { prompt: 'b', chat: false },
    { messages, tools: [], templateArgs: { a: 1 } },
    { prompt: 'b', tools: [{ a: 1 }] },
  ];
  expect(await found(rows)).toEqual({
    ways: [raw, chat, { chat: true, tools: [], templateArgs: { a: 1 } }],
    of: [0, 1, 0, 1, 1, 0, 2, 0],
  });
  expect(await found(rows.slice(0, 3), { system: 'Short.' })).toEqual({ ways: [chat, raw], of: [0, 0, 1] });
  expect(await found(rows.slice(0, 2), { chat: false })).toEqual({ ways: [raw, chat], of: [0, 1] });
  // A template makes the prompt of fields, whatever else a row has.
  expect(await found([{ fields: {} }, { messages }], { promptTemplate: 'a{{b}}' })).toEqual({
    ways: [raw],
    of: [0, 0],
  });
});

test('what rows tell their chat template makes a way of its own, each time the same', async () => {
  const row = (of: number): Row => ({ prompt: 'a', chat: true, tools: [{ of }], templateArgs: { of: 0 } });
  expect(await found([row(1), row(2), row(1)])).toEqual({
    ways: [
      { chat: true, tools: [{ of: 1 }], templateArgs: { of: 0 } },
      { chat: true, tools: [{ of: 2 }], templateArgs: { of: 0 } },
    ],
    of: [0, 1, 0],
  });
});
