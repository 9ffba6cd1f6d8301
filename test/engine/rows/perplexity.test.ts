import { describe, expect, test } from '@jest/globals';
import { checkPerplexity } from '../../../src/engine/rows/perplexity.js';
import { RowError } from '../../../src/errors/RowError.js';
import { UsageError } from '../../../src/errors/UsageError.js';

const LIMITS = { contextTokens: 10, vocabularySize: 27 };

describe('checkPerplexity', () => {
  test('a window is of one prompt token, unless it says more; a text may be shorter than its window', () => {
    expect(checkPerplexity([1, 2, 3], { window: 20 }, LIMITS)).toEqual({ window: 20, promptTokens: 1 });
    expect(checkPerplexity([1, 2, 3], { window: 3, promptTokens: 2 }, LIMITS)).toEqual({ window: 3, promptTokens: 2 });
  });

  test.each<[unknown, unknown, string]>([
    [null, { window: 4 }, 'tokens: found null, expected an array of token ids'],
    ['abc', { window: 4 }, 'tokens: found "abc", expected an array of token ids'],
    [[1, 2], undefined, 'options: found undefined, expected an object'],
    [[1, 2], {}, "window: found nothing, expected a whole number from 2 to 10, the model's context"],
    [[1, 2], { window: 1 }, 'window: found 1, expected a whole number of at least 2'],
    [
      new Array(11).fill(1),
      { window: 11 },
      "window: found 11, expected a whole number from 2 to 10, the model's context",
    ],
    [[1, 2], { window: 4, promptToken: 2 }, 'options: found the unknown "promptToken"'],
    [[1, 2], { window: 4, promptTokens: 4 }, 'promptTokens: found 4, expected a whole number from 1 to 3'],
    [[], { window: 4 }, 'tokens: found 0, expected at least 2: the first is not scored'],
    [[1], { window: 4 }, 'tokens: found 1, expected at least 2'],
    [[1, 2], { window: 4, promptTokens: 2 }, 'tokens: found 2, expected at least 3: the first 2 are not scored'],
    [[1, 2], { window: 4, signal: 'x' }, 'signal: found "x"'],
  ])('%# is refused with what was found and what was expected', (tokens, options, message) => {
    expect(() => checkPerplexity(tokens, options, LIMITS)).toThrow(message);
    expect(() => checkPerplexity(tokens, options, LIMITS)).toThrow(UsageError);
  });

  test.each([[[1, 27]], [[1, -1]], [[1, 0.5]], [[1, '2']], [[1, undefined]], [new Array(3)]])(
    'a text with tokens that are none, %j, is refused as a row with them is',
    (tokens) => {
      expect(() => checkPerplexity(tokens, { window: 4 }, LIMITS)).toThrow(RowError);
    },
  );
});
