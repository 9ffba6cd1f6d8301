import { describe, expect, test } from '@jest/globals';
import { ScoredRow } from '../../../src/engine/rows/ScoredRow.js';
import { RowError } from '../../../src/errors/RowError.js';

const accept = (scores: readonly number[], promptTokens = 1): unknown => {
  const row = new ScoredRow([5, 6, 7, 8], 100, promptTokens);
  return row.accept({ sampled: new Map(), scored: new Map([[3, Float32Array.from(scores)]]) }, 3);
};

describe('a window that is scored', () => {
  test('adds up what is not of its prompt', () => {
    expect(accept([-1, -2, -4])).toEqual({ firstToken: 100, tokens: 3, negativeLogLikelihood: 7 });
    expect(accept([-1, -2, -4], 3)).toEqual({ firstToken: 100, tokens: 1, negativeLogLikelihood: 4 });
  });

  test.each([
    [[-1, NaN, -4], 'the logits after position 101 are not finite'],
    [
      [-1, -2, -Infinity],
      'the model gives the token at position 103 no probability at all: the perplexity is infinite',
    ],
  ])('%j has no perplexity, and the position is named', (scores, words) => {
    expect(() => accept(scores)).toThrow(words);
    expect(() => accept(scores)).toThrow(RowError);
  });
});
