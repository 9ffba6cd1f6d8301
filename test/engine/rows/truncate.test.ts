import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { prepareRow } from '../../../src/engine/rows/prepareRow.js';
import { fittedPrompt as fittedInParts, type FittedPrompt } from '../../../src/engine/rows/truncate.js';
import { drained } from '../../../src/collections/drained.js';
import type { Tokenizer } from '../../../src/model/Tokenizer.js';
import type { PromptOptions, Row } from '../../../src/Row.js';
import { open } from '../../model/tokenizer/fixtures.js';
import { letterTokenizer } from '../../support/wordTokenizer.js';

const LETTERS = letterTokenizer();

const fittedPrompt = (...given: Parameters<typeof fittedInParts>): FittedPrompt => drained(fittedInParts(...given));

/** Text of a row's prompt, and how much of it was cut, where so many letters may be in it. */
function letters(row: Row, options: PromptOptions, room: number, most = room): unknown {
  const limits = { contextTokens: most, vocabularySize: 27 };
  const { tokens, truncated } = fittedPrompt(row, options, LETTERS, limits, { most, room });
  return [LETTERS.decode(tokens), truncated];
}

function codeOf(run: () => unknown): unknown {
  try {
    return run();
  } catch (error) {
    return (error as { rowCode?: string }).rowCode;
  }
}

describe('what is cut of a prompt that is too long', () => {
  const alphabet = 'abcdefghijklmnopqrstuvwxyz';

  test.each([
    ['head', 'vwxyz', 21],
    ['tail', 'abcde', 21],
    ['middle', 'abcyz', 21],
  ] as const)('%s: that end of the prompt, or its middle', (truncate, kept, cut) => {
    expect(letters({ prompt: alphabet }, { truncate }, 5)).toEqual([kept, cut]);
    const tokens = Array.from(alphabet, (_, id) => id);
    expect(letters({ tokens }, { truncate }, 5)).toEqual([kept, cut]);
    const messages = [
      { role: 'system', content: 'ssssss' },
      { role: 'user', content: 'u' },
      { role: 'assistant', content: 'aa' },
      { role: 'user', content: alphabet },
      { role: 'assistant', content: 'q' },
    ];
    expect(letters({ messages }, { truncate }, 15)).toEqual([`ssssssuaa${kept}q`, cut]);
    expect(letters({ prompt: alphabet }, { truncate, system: 'ss' }, 7)).toEqual([`ss${kept}`, cut]);
    const template = { truncate, promptTemplate: 'ttt{{a}}ttt{{b}}ttt{{c:default}}' };
    expect(letters({ fields: { a: 'aa', b: alphabet } }, template, 23)).toEqual([`tttaattt${kept}tttdefault`, cut]);
    // Longer ones first, and others where that is not enough.
    expect(letters({ fields: { a: 'zz', b: alphabet } }, template, 17)).toEqual([
      truncate === 'head' ? 'tttztttttdefault'.replace('ztttttd', 'zttttttd') : 'tttzttttttdefault',
      27,
    ]);
    // A field stands in all its places.
    expect(letters({ fields: { a: alphabet } }, { truncate, promptTemplate: '{{a}}q{{a}}' }, 12)).toEqual([
      `${kept}q${kept}`,
      42,
    ]);
  });

  test('of content in parts the longest is cut, and others stay', () => {
    const content = ['ab', alphabet, 'cd'].map((text) => ({ type: 'text', text }));
    const row = { messages: [{ role: 'user', content }] } as Row;
    const parts: unknown[] = [];
    const tokenizer: Tokenizer = {
      ...LETTERS,
      hasChatTemplate: true,
      encodeChat: (messages) => {
        const texts = (messages[0]?.content as readonly { text: string }[]).map(({ text }) => text);
        parts.splice(0, parts.length, ...texts);
        return LETTERS.encode(texts.join(''));
      },
    };
    const limits = { contextTokens: 9, vocabularySize: 27 };
    const { truncated } = fittedPrompt(row, { truncate: 'tail' }, tokenizer, limits, { most: 9, room: 9 });
    expect([parts, truncated]).toEqual([['ab', 'abcde', 'cd'], 21]);
  });

  test.each([
    ['head', (text: string) => text.slice(-5)],
    ['tail', (text: string) => text.slice(0, 5)],
    ['middle', (text: string) => text.slice(0, 3) + text.slice(-2)],
  ] as const)('%s: of a very long text few tokens are looked at one by one', (truncate, kept) => {
    const text = `bcdefgh${'a'.repeat(3_000_000)}hgfedcb`;
    let looked = 0;
    const spied: Tokenizer = {
      ...LETTERS,
      stream: () => ({ push: (token) => ((looked += 1), LETTERS.decode([token])), end: () => '' }),
    };
    const limits = { contextTokens: 100_000, vocabularySize: 27 };
    const { tokens, truncated } = fittedPrompt({ prompt: text }, { truncate }, spied, limits, { most: 5, room: 5 });
    expect([LETTERS.decode(tokens), truncated]).toEqual([kept(text), text.length - 5]);
    expect(looked).toBeLessThan(500_000);
  });

  test('nothing of what fits, or where nothing is asked for', () => {
    for (const truncate of ['off', 'head', 'tail', 'middle'] as const)
      expect(letters({ prompt: 'abcde' }, { truncate }, 3, 5)).toEqual(['abcde', undefined]);
    expect(letters({ prompt: 'abcdef' }, { truncate: 'tail' }, 3, 5)).toEqual(['abc', 3]);
    expect(letters({ prompt: 'abcde' }, {}, 3, 5)).toEqual(['abcde', undefined]);
    expect(codeOf(() => letters({ prompt: 'abcdef' }, {}, 3, 5))).toBe('too-long');
  });

  test.each<[string, Row, PromptOptions]>([
    ['a template', { fields: { a: 'aaaa' } }, { promptTemplate: 'tttttttt{{a}}' }],
    ['a system message', { prompt: 'aaaa' }, { system: 'ssssssss' }],
    [
      'other messages',
      {
        messages: [
          { role: 'user', content: 'a' },
          { role: 'assistant', content: 'ssssssss' },
        ],
      },
      {},
    ],
    ['no user', { messages: [{ role: 'system', content: 'ssssssss' }] }, {}],
  ])('never of %s: too long by itself, it is an error', (_, row, options) => {
    expect(codeOf(() => letters(row, { ...options, truncate: 'head' }, 5))).toBe('too-long');
  });

  test('where a character alone is too long, the row is', () => {
    const row = { prompt: '👩‍👩‍👧' };
    const limits = { contextTokens: 5, vocabularySize: 100_000 };
    for (const truncate of ['head', 'tail', 'middle'] as const)
      expect(codeOf(() => fittedPrompt(row, { truncate }, open('qwen2'), limits, { most: 5, room: 5 }))).toBe(
        'too-long',
      );
  });

  test('room is left for the answer, at most half of the context', () => {
    const limits = { contextTokens: 20, vocabularySize: 27 };
    const prepared = (maxNewTokens: number, truncate: PromptOptions['truncate'], length = 26): unknown => {
      const options = { maxNewTokens, ...(truncate && { truncate }) };
      const row = drained(prepareRow({ prompt: alphabet.slice(0, length) }, options, LETTERS, limits));
      return [row.tokens.length, row.maxNewTokens, row.truncated];
    };
    expect(prepared(4, 'tail')).toEqual([17, 4, 9]);
    expect(prepared(100, 'tail')).toEqual([11, 10, 15]);
    expect(prepared(100, 'tail', 20)).toEqual([20, 1, undefined]);
    expect(codeOf(() => prepared(4, undefined))).toBe('too-long');
    expect(codeOf(() => prepared(4, 'off'))).toBe('too-long');
  });

  test('text far beyond what the context may hold, too, whatever it is given as', () => {
    const text = `ab${'c'.repeat(5 * 2 ** 20)}yz`;
    for (const [row, options] of [
      [{ prompt: text }, {}],
      [{ fields: { a: text, b: 'x' } }, { promptTemplate: '{{a}}' }],
      [{ messages: [{ role: 'user', content: text }] }, {}],
    ] as const) {
      expect(codeOf(() => letters(row, options, 10))).toBe('too-long');
      for (const [truncate, kept] of [
        ['head', 'ccccccccyz'],
        ['tail', 'abcccccccc'],
        ['middle', 'abcccccccyz'.replace('cc', 'c')],
      ] as const)
        expect(letters(row, { ...options, truncate }, 10)).toEqual([kept, text.length - 10]);
    }
    const two = { fields: { a: text, b: text } };
    expect(letters(two, { truncate: 'tail', promptTemplate: '{{a}}{{b}}' }, 10)).toEqual([
      'abcccccccc',
      2 * text.length - 10,
    ]);
  });
});

describe.each(['llama3', 'qwen2', 'llama2', 'gemma', 'unigram', 'falcon'])('with the tokenizer %s', (name) => {
  const tokenizer: Tokenizer = open(name);
  const limits = (contextTokens: number) => ({ contextTokens, vocabularySize: tokenizer.vocabularySize });
  const word = fc.constantFrom(
    'the ',
    'Überfluss',
    ' größer',
    '日本',
    '👩‍👩‍👧',
    '🇩🇪',
    'e\u0301',
    '\r\n',
    '  ',
    'x',
    '<s>',
    '\n',
  );
  const text = fc.array(word, { minLength: 1, maxLength: 80 }).map((words) => words.join(''));

  test('what is left fits, ends as the text does, and has whole characters; the same each time', () => {
    const characters = (of: string): string[] =>
      Array.from(new Intl.Segmenter('en', { granularity: 'grapheme' }).segment(of), ({ segment }) => segment);
    fc.assert(
      fc.property(
        text,
        fc.integer({ min: 24, max: 60 }),
        fc.constantFrom('head', 'tail', 'middle'),
        (prompt, room, truncate) => {
          let seen = '';
          const spied: Tokenizer = {
            ...tokenizer,
            controlToken: (of) => tokenizer.controlToken(of),
            decode: (ids, how) => tokenizer.decode(ids, how),
            stream: (how) => tokenizer.stream(how),
            encode: (of, how) => tokenizer.encode(of, how),
            encodeInParts: (of, how) => {
              if (how?.continues !== true) seen = of;
              return tokenizer.encodeInParts(of, how);
            },
          };
          const all = tokenizer.encode(prompt).length;
          const run = () => fittedPrompt({ prompt }, { truncate }, spied, limits(room), { most: room, room });
          const { tokens, truncated } = run();
          expect(run()).toEqual({ tokens, truncated });
          expect(tokens.length).toBeLessThanOrEqual(room);
          expect(truncated).toBe(all <= room ? undefined : all - tokens.length);
          expect(tokens).toEqual(tokenizer.encode(seen));
          const [whole, left] = [characters(prompt), characters(seen)];
          if (truncate === 'tail') expect(whole.slice(0, left.length)).toEqual(left);
          if (truncate === 'head') expect(whole.slice(whole.length - left.length)).toEqual(left);
          if (truncate === 'middle')
            expect(
              Array.from({ length: left.length + 1 }, (_, at) => at).some(
                (at) => prompt.startsWith(left.slice(0, at).join('')) && prompt.endsWith(left.slice(at).join('')),
              ),
            ).toBe(true);
          // No more room is left than a character may take.
          if (truncated !== undefined) expect(room - tokens.length).toBeLessThanOrEqual(32);
        },
      ),
      { numRuns: 60 },
    );
  });
});
