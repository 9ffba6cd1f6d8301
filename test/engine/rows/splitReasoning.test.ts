import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { ActiveRow } from '../../../src/engine/rows/ActiveRow.js';
import { prepareRow } from '../../../src/engine/rows/prepareRow.js';
import { rowKey } from '../../../src/engine/rows/rowKey.js';
import { endsReasoning, splitReasoning } from '../../../src/engine/rows/splitReasoning.js';
import type { Reasoning, RowResult } from '../../../src/Row.js';
import { open } from '../../model/tokenizer/fixtures.js';

const MARKS = { start: '<think>', end: '</think>' };

test.each<[string, boolean, { reasoning?: string; text: string }]>([
  ['<think>\nhm\n</think>\n\nyes', false, { reasoning: 'hm', text: 'yes' }],
  ['hm\n</think>\n\nyes </think>', true, { reasoning: 'hm', text: 'yes </think>' }],
  ['\n<think>hm</think>yes', true, { reasoning: 'hm', text: 'yes' }],
  ['<think>\nhm', false, { reasoning: 'hm', text: '' }],
  ['hm', true, { reasoning: 'hm', text: '' }],
  [' yes </think> no ', false, { text: ' yes </think> no ' }],
  ['yes <think>no</think>', false, { text: 'yes <think>no</think>' }],
])('%j (open: %j)', (text, isOpen, parts) => {
  expect(splitReasoning(text, MARKS, isOpen)).toEqual(parts);
});

test('nothing of a text is lost but marks and white space', () => {
  fc.assert(
    fc.property(
      fc.string({ unit: fc.constantFrom('<think>', '</think>', 'a', 'b', ' ', '\n') }),
      fc.boolean(),
      (text, isOpen) => {
        const { reasoning = '', text: answer } = splitReasoning(text, MARKS, isOpen);
        const letters = (of: string): string => of.replaceAll(/<\/?think>|\s/g, '');
        expect(letters(reasoning + answer)).toBe(letters(text));
      },
    ),
  );
});

describe('of a model whose template marks reasoning', () => {
  const tokenizer = open('smollm', 'gguf', {
    'tokenizer.chat_template': '{{ messages[0].content }}{% if open %}<think>\n{% endif %}{# </think> #}',
  });

  function answered(
    text: string,
    reasoning: Reasoning,
    templateArgs: Record<string, unknown> = {},
  ): RowResult | undefined {
    const prepared = prepareRow({ messages: [{ role: 'user', content: 'q' }], templateArgs }, {}, tokenizer, {
      contextTokens: 1000,
      vocabularySize: 100_000,
    });
    const row = new ActiveRow(
      { id: 1, index: 0, sequence: 0 },
      prepared,
      tokenizer,
      { ignoreEos: false, logprobs: undefined, reasoning },
      { token: () => undefined, row: () => undefined },
    );
    const [end = 0] = tokenizer.endTokens;
    let result: RowResult | undefined;
    for (const token of [...tokenizer.encode(text, { specialTokens: false }), end]) {
      result = row.accept({ sampled: new Map([[7, { token, logprob: NaN, top: [] }]]), scored: new Map() }, 7)?.result;
    }
    return result;
  }

  test('it is kept, separated or dropped; tokens stay as they are', () => {
    const text = '<think>hm</think>\nyes';
    expect(answered(text, 'keep')).toMatchObject({ text });
    expect(answered(text, 'separate')).toMatchObject({ text: 'yes', reasoning: 'hm' });
    expect(answered(text, 'drop')).toMatchObject({
      text: 'yes',
      tokens: tokenizer.encode(text, { specialTokens: false }),
    });
    for (const kind of ['keep', 'drop'] as const) expect(answered(text, kind)).not.toHaveProperty('reasoning');
  });

  test('a prompt may open it', () => {
    expect(answered('hm</think>yes', 'separate', { open: true })).toMatchObject({ text: 'yes', reasoning: 'hm' });
    expect(answered('yes', 'separate')).toMatchObject({ text: 'yes' });
    expect(answered('yes', 'separate')).not.toHaveProperty('reasoning');
    expect(endsReasoning(tokenizer.encode('a <think>\n'), MARKS, tokenizer)).toBe(true);
    expect(endsReasoning(tokenizer.encode('<think>\n</think>\n'), MARKS, tokenizer)).toBe(false);
  });

  test('answers are kept under what became of it', () => {
    const prepared = prepareRow({ prompt: 'q' }, {}, tokenizer, { contextTokens: 1000, vocabularySize: 100_000 });
    const key = (reasoning?: Reasoning): string =>
      rowKey(prepared, { ignoreEos: false, logprobs: undefined, reasoning });
    expect(key('keep')).toBe(key());
    expect(new Set([key(), key('separate'), key('drop')]).size).toBe(3);
  });
});
