import { expect, test } from '@jest/globals';
import type { Row, RowInput } from '../../src/index.js';

test('a row has exactly one prompt, also by its type', () => {
  const fine: readonly Row[] = [
    { prompt: 'a' },
    { prompt: 'a', chat: true, maxNewTokens: 3 },
    { messages: [{ role: 'user', content: 'b' }], id: 1 },
    { tokens: [1, 2], carry: { label: 'x' } },
    { fields: { subject: 'x' }, chat: true, templateArgs: { enable_thinking: false } },
  ];
  const wrong: readonly RowInput[] = [
    // @ts-expect-error An empty row has no prompt.
    {},
    // @ts-expect-error Nor has one with nothing but settings.
    { id: 1, maxNewTokens: 3 },
    // @ts-expect-error Two prompts.
    { prompt: 'a', messages: [{ role: 'user', content: 'b' }] },
    // @ts-expect-error Two prompts.
    { prompt: 'a', tokens: [1] },
    // @ts-expect-error What a template takes, and a prompt.
    { prompt: 'a', fields: { subject: 'x' } },
    // @ts-expect-error A field that nobody knows.
    { prompt: 'a', max_tokens: 3 },
  ];
  expect([fine.length, wrong.length]).toEqual([5, 6]);
});
