import { describe, expect, test } from '@jest/globals';
import { completionTokens as completionTokensInParts } from '../../../src/engine/rows/completionTokens.js';
import { drained } from '../../../src/collections/drained.js';
import type { RowError } from '../../../src/errors/RowError.js';
import type { Completion } from '../../../src/rows/completions.js';
import { open } from '../../model/tokenizer/fixtures.js';
import { letterTokenizer } from '../../support/wordTokenizer.js';

const completionTokens = (...given: Parameters<typeof completionTokensInParts>) =>
  drained(completionTokensInParts(...given));

function tokens(
  name: string,
  completions: readonly Completion[],
  end = false,
  tokenizer = letterTokenizer(),
): readonly (readonly number[])[] {
  return completionTokens(name, completions, {
    tokenizer,
    limits: { contextTokens: 20, vocabularySize: tokenizer.vocabularySize },
    end,
  });
}

function refusal(name: string, completions: readonly Completion[]): readonly [string, string] {
  try {
    tokens(name, completions);
  } catch (error) {
    const { rowCode, message } = error as RowError;
    return [rowCode, message];
  }
  throw new Error('nothing was refused');
}

describe('completionTokens', () => {
  test('ids of one beyond the context are not looked at, nor more tokens than a row may bring', () => {
    const long = Array.from<number>({ length: 1e6 }).fill(-1);
    expect(refusal('completions', [long])).toEqual([
      'too-long',
      "completions[0]: found 1000000 tokens, the model's context holds 20",
    ]);
    const limits = { contextTokens: 2 ** 12, vocabularySize: 27 };
    const many = Array.from({ length: 600 }, () => Array.from<number>({ length: 2 ** 12 }).fill(1));
    expect(() => completionTokens('completions', many, { tokenizer: letterTokenizer(), limits })).toThrow(
      'completions: found more than 2097152 tokens together',
    );
  });

  test('are those of texts, and ids as they are; the end token behind each where that is asked for', () => {
    expect(tokens('completions', ['ab', [1, 26]])).toEqual([
      [0, 1],
      [1, 26],
    ]);
    expect(tokens('labels', ['ab'], true)).toEqual([[0, 1, 26]]);
  });

  test('go on behind the prompt: what SentencePiece puts before a text is not there unless it is written', () => {
    const tokenizer = open('mistral');
    const [without, withBlank, sign] = tokens('labels', ['the', ' the', '.'], false, tokenizer);
    expect(withBlank).toEqual(tokenizer.encode('the', { specialTokens: false }));
    expect(tokenizer.decode([...tokenizer.encode('In'), ...(without ?? []), ...(sign ?? [])])).toBe('Inthe.');
  });

  test('labels whose tokens are the same are refused, both by name; completions may be', () => {
    const alike = ['a', '\u00e9', 'e\u0301'];
    expect(() => tokens('labels', alike, false, open('qwen2'))).toThrow(
      'labels[2]: found "e\u0301", whose tokens are those of labels[1], "\u00e9": expected labels that differ in their tokens',
    );
    expect(tokens('completions', alike, false, open('qwen2'))).toHaveLength(3);
  });

  test.each<[string, readonly Completion[], string, string]>([
    [
      'completions',
      ['a', []],
      'invalid-parameter',
      'completions[1]: found an empty array, expected at least one token id',
    ],
    ['completions', [[1, 2], [27]], 'token-out-of-range', 'completions[1]: found 27, expected ids from 0 to 26'],
    ['labels', ['a', '~'], 'token-out-of-range', 'labels[1]: found 29, expected ids from 0 to 26'],
    [
      'labels',
      ['x'.repeat(3_000_000)],
      'too-long',
      "labels[0]: found 3000000 UTF-16 units, the model's context holds 20 tokens: expected at most",
    ],
    ['labels', ['a'.repeat(21)], 'too-long', "labels[0]: found 21 tokens, the model's context holds 20"],
  ])('what is wrong is said of the %s: %#', (name, completions, code, message) => {
    expect(refusal(name, completions)).toEqual([code, expect.stringContaining(message)]);
  });
});
