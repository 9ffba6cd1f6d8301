import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { ActiveRow, type TextRules } from '../../../src/engine/rows/ActiveRow.js';
import { endsReasoning, splitReasoning } from '../../../src/engine/rows/reasoning.js';
import { prepareRow as prepareRowInParts } from '../../../src/engine/rows/prepareRow.js';
import { drained } from '../../../src/collections/drained.js';
import type { NativeGrammar } from '../../../src/bindings/Grammars.js';
import type { AnswerFormat } from '../../../src/engine/grammar/AnswerFormat.js';
import type { SampledToken } from '../../../src/engine/grid/Task.js';
import type { Reasoning, RowResult } from '../../../src/Row.js';
import { letterTokenizer } from '../../support/wordTokenizer.js';
import { rowKey } from '../../../src/engine/rows/rowKey.js';
import { open } from '../../model/tokenizer/fixtures.js';

const prepareRow = (...given: Parameters<typeof prepareRowInParts>) => drained(prepareRowInParts(...given));

/** Feeds letters ('.' is the end token) to a row until it ends. */
function answer(
  letters: string,
  options: { stop?: string[]; maxNewTokens?: number } = {},
  rules: Partial<TextRules> = {},
): { result: RowResult | undefined; taken: number; counted: number } {
  const tokenizer = letterTokenizer();
  const prepared = prepareRow({ prompt: 'q', maxNewTokens: 9, ...options }, {}, tokenizer, {
    contextTokens: 100,
    vocabularySize: 27,
  });
  let counted = 0;
  const row = new ActiveRow(
    { id: 'x', index: 3, sequence: 5, carry: { label: 1 } },
    prepared,
    tokenizer,
    { ignoreEos: false, logprobs: undefined, ...rules },
    { token: () => counted++, row: () => undefined },
  );
  let taken = 0;
  for (const letter of letters) {
    const token = letter === '.' ? 26 : letter.charCodeAt(0) - 97;
    taken++;
    const done = row.accept(
      { sampled: new Map([[8, { token, logprob: -0.5, top: [{ token, logprob: -0.5 }] }]]), scored: new Map() },
      8,
    );
    if (done) return { result: done.result, taken, counted };
  }
  return { result: undefined, taken, counted };
}

describe('ActiveRow', () => {
  test('a row whose log-probabilities are beyond the limit is an error, with its text until then', () => {
    const tokenizer = letterTokenizer();
    const prepared = prepareRow({ prompt: 'q', maxNewTokens: 9 }, {}, tokenizer, {
      contextTokens: 100,
      vocabularySize: 27,
    });
    const each = 50_000;
    const row = new ActiveRow(
      { id: 'x', index: 0, sequence: 0 },
      prepared,
      tokenizer,
      { ignoreEos: false, logprobs: each },
      { token: () => undefined, row: () => undefined },
    );
    const top = Array.from({ length: each }, (_, token) => ({ token, logprob: -1 }));
    const next = (): RowResult | undefined =>
      row.accept({ sampled: new Map([[1, { token: 3, logprob: -1, top }]]), scored: new Map() }, 1)?.result;
    expect([next(), next()]).toEqual([undefined, undefined]);
    const { logprobs, ...result } = next() ?? ({} as RowResult);
    expect(logprobs).toHaveLength(2);
    expect(result).toMatchObject({
      text: 'dd',
      tokens: [3, 3],
      finishReason: 'error',
      error: {
        code: 'limit',
        message:
          'logprobs: found 50000 alternatives for each of more than 2 tokens, expected at most 131072 log-probabilities in a row: fewer of them, or fewer maxNewTokens',
      },
    });
  });

  test('a row that takes too long ends as an error with its next token, unless that is its last; the time runs from its admission', () => {
    const take = (admit: boolean, letters: string): RowResult | undefined => {
      const tokenizer = letterTokenizer();
      const prepared = prepareRow({ prompt: 'q', maxNewTokens: 2 }, {}, tokenizer, {
        contextTokens: 100,
        vocabularySize: 27,
      });
      const failed: boolean[] = [];
      const row = new ActiveRow(
        { id: 'x', index: 0, sequence: 0 },
        prepared,
        tokenizer,
        { ignoreEos: false, logprobs: undefined, timeout: 0.002 },
        { token: () => undefined, row: (error) => failed.push(error) },
      );
      if (admit) row.begin();
      for (const until = performance.now() + 5; performance.now() < until;);
      for (const letter of letters) {
        const token = letter.charCodeAt(0) - 97;
        const done = row.accept({ sampled: new Map([[8, { token, logprob: 0, top: [] }]]), scored: new Map() }, 8);
        if (done === undefined) continue;
        expect(failed).toEqual([done.result.error !== undefined]);
        return done.result;
      }
      return undefined;
    };
    expect(take(true, 'ab')).toMatchObject({
      text: '',
      finishReason: 'error',
      error: { code: 'timeout', message: 'the row has taken more than 0.002 seconds, and has 1 of at most 2 tokens' },
    });
    expect(take(false, 'ab')).toMatchObject({ text: 'ab', finishReason: 'length' });
  });

  test('ends at the end token, which is no part of the result', () => {
    expect(answer('abc.').result).toEqual({
      id: 'x',
      index: 3,
      text: 'abc',
      tokens: [0, 1, 2],
      finishReason: 'stop',
      usage: { promptTokens: 1, completionTokens: 3 },
      carry: { label: 1 },
    });
  });

  test('ends at its length', () => {
    expect(answer('abcdef', { maxNewTokens: 4 })).toMatchObject({
      result: { text: 'abcd', finishReason: 'length' },
      taken: 4,
      counted: 4,
    });
  });

  test('goes on past the end token if told so', () => {
    expect(answer('a.b', { maxNewTokens: 3 }, { ignoreEos: true }).result).toMatchObject({
      text: 'ab',
      tokens: [0, 26, 1],
      finishReason: 'length',
    });
  });

  test('ends before a stop string that straddles tokens; its tokens are all there', () => {
    expect(answer('abcde', { stop: ['cd'] }).result).toMatchObject({
      text: 'ab',
      tokens: [0, 1, 2, 3],
      finishReason: 'stop',
      usage: { completionTokens: 4 },
    });
  });

  test('what might have become a stop string is text in the end', () => {
    expect(answer('abc.', { stop: ['cd'] }).result).toMatchObject({ text: 'abc', finishReason: 'stop' });
    expect(answer('abc', { stop: ['cd'], maxNewTokens: 3 }).result).toMatchObject({
      text: 'abc',
      finishReason: 'length',
    });
  });

  test('a stop string in the last token counts as a stop', () => {
    expect(answer('abc', { stop: ['c'], maxNewTokens: 3 }).result).toMatchObject({ text: 'ab', finishReason: 'stop' });
  });

  test('reports log-probabilities, one a token', () => {
    expect(answer('ab.', {}, { logprobs: 1 }).result?.logprobs).toEqual(
      [0, 1].map((token) => ({ token, logprob: -0.5, top: [{ token, logprob: -0.5 }] })),
    );
    expect(answer('ab.').result).not.toHaveProperty('logprobs');
  });

  test('an answer may be empty', () => {
    expect(answer('.').result).toMatchObject({ text: '', tokens: [], finishReason: 'stop' });
  });
});

describe('ActiveRow, held to a format', () => {
  const grammar = {} as NativeGrammar;
  const anything: AnswerFormat = { grammar, read: (value) => ({ value }) };

  /** Feeds letters to a row, each with what the grammar says of the answer after it. */
  function held(
    sampled: readonly (readonly [letter: string, place: NonNullable<SampledToken['place']>])[],
    {
      format = anything,
      failure,
      ...options
    }: { maxNewTokens?: number; stop?: string[]; format?: AnswerFormat; failure?: string } = {},
  ): RowResult | undefined {
    const tokenizer = letterTokenizer();
    const prepared = prepareRow({ prompt: 'q', ...options }, {}, tokenizer, { contextTokens: 100, vocabularySize: 27 });
    const row = new ActiveRow(
      { id: 'x', index: 0, sequence: 0 },
      prepared,
      tokenizer,
      { ignoreEos: false, logprobs: undefined },
      { token: () => undefined, row: () => undefined },
      undefined,
      format,
    );
    const take = (token: SampledToken): RowResult | undefined =>
      row.accept({ sampled: new Map([[8, token]]), scored: new Map() }, 8)?.result;
    for (const [letter, place] of sampled) {
      const result = take({ token: letter === '.' ? 26 : letter.charCodeAt(0) - 97, logprob: 0, top: [], place });
      if (result) return result;
    }
    return failure === undefined ? undefined : take({ token: 0, logprob: 0, top: [], failure });
  }
  const open = (letters: string): (readonly [string, 'open'])[] => [...letters].map((letter) => [letter, 'open']);

  test('an error keeps the text that might have become a stop string, and what is before one that was found', () => {
    const limited = { maxNewTokens: 3 };
    expect(held(open('abc'), { ...limited, stop: ['abcd'] })).toMatchObject({
      text: 'abc',
      finishReason: 'error',
      error: { code: 'schema', message: expect.stringContaining('its limit of 3 tokens') as unknown },
    });
    // The second is found, but only the end tells that the first is not.
    expect(held(open('abc'), { ...limited, stop: ['abcd', 'bc'] })).toMatchObject({
      text: 'a',
      error: { code: 'schema', message: expect.stringContaining('one of its stop strings') as unknown },
    });
    expect(held(open('ab'), { stop: ['abc'], failure: 'too much' })).toMatchObject({
      text: 'ab',
      error: { code: 'limit', message: "the answer's responseFormat, after 2 tokens: too much" },
    });
  });

  test('what a stop string leaves of an answer is a whole one, or an error', () => {
    const cut = {
      finishReason: 'error',
      error: { code: 'schema', message: expect.stringContaining('stop') as unknown },
    };
    const whole = { finishReason: 'stop' };
    // Where only the grammar knows: after which of the tokens the answer was whole.
    expect(held([...open('ab'), ['c', 'ended']], { stop: ['c'] })).toMatchObject({
      text: 'ab',
      ...cut,
    });
    expect(
      held(
        [
          ['a', 'open'],
          ['b', 'accepting'],
          ['c', 'open'],
        ],
        { stop: ['c'] },
      ),
    ).toMatchObject({ text: 'ab', ...whole });
    expect(
      held(
        [
          ['a', 'accepting'],
          ['b', 'open'],
          ['c', 'ended'],
        ],
        { stop: ['c'] },
      ),
    ).toMatchObject({ text: 'ab', ...cut });
    // Found after the last token, by its end alone.
    const late = { stop: ['bcd', 'c'] };
    expect(
      held(
        [
          ['a', 'open'],
          ['b', 'accepting'],
          ['c', 'ended'],
        ],
        late,
      ),
    ).toMatchObject({ text: 'ab', ...whole });
    expect(held([...open('ab'), ['c', 'accepting'], ['.', 'accepting']], late)).toMatchObject({ text: 'ab', ...cut });
    expect(held([...open('ab'), ['c', 'accepting']], { ...late, maxNewTokens: 3 })).toMatchObject({
      text: 'ab',
      ...cut,
    });
    // Where the text tells.
    const format: AnswerFormat = { ...anything, isWhole: (text) => text === 'ab' };
    expect(held(open('abc'), { format, stop: ['c'] })).toMatchObject({ text: 'ab', value: 'ab', ...whole });
    expect(held([...open('ab'), ['c', 'ended']], { format, stop: ['bc'] })).toMatchObject({ text: 'a', ...cut });
    // And without one nothing is cut.
    expect(held([...open('ab'), ['c', 'ended']], { format, stop: ['d'] })).toMatchObject({ text: 'abc', ...whole });
  });
});

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
