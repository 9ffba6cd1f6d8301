import { expect, test } from '@jest/globals';
import fc from 'fast-check';
import { memberRanges } from '../../../src/arguments/memberRanges.js';
import { certaintyOf, fieldCertainties } from '../../../src/engine/rows/certainty.js';
import { tries } from '../../support/tries.js';

/** Tokens are pieces of a text; one without a character is the beginning of the next one's. */
const tokenizer = (pieces: readonly string[]): Parameters<typeof fieldCertainties>[3] => ({
  stream: () => ({ push: (token: number) => pieces[token] ?? '', end: () => '' }),
});

test('a member is as certain as the tokens are that have some of its value', () => {
  const pieces = ['{"a":', ' "x', '', 'yé"', ',"b":1', '2}'];
  const given = [0.9, 0.5, 0.25, undefined, 0.75, 0.625];
  expect(fieldCertainties(pieces.join(''), [0, 1, 2, 3, 4, 5], given, tokenizer(pieces))).toEqual({
    a: { mean: 0.375, least: 0.25 },
    b: { mean: 0.6875, least: 0.625 },
  });
  expect(fieldCertainties('[1]', [0], [1], tokenizer(['[1]']))).toBeUndefined();
});

test('whatever the answer and its tokens, they are those that a look at each token finds', () => {
  const answers = fc.dictionary(fc.string({ maxLength: 4 }), fc.jsonValue({ maxDepth: 2 }), { maxKeys: 8 });
  fc.assert(
    fc.property(answers, fc.array(fc.nat(4)), fc.array(fc.nat(8), { minLength: 1 }), (answer, lengths, given) => {
      const text = JSON.stringify(answer);
      const pieces: string[] = [];
      for (let at = 0; at < text.length; at += pieces.at(-1)?.length ?? 0) {
        const length = [...lengths, 1][pieces.length % (lengths.length + 1)] ?? 1;
        pieces.push(text.slice(at, at + length));
      }
      const certainties = pieces.map((_, at) => {
        const value = given[at % given.length] ?? 0;
        return value === 8 ? undefined : value / 8;
      });
      const ends = pieces.map((_, at) => pieces.slice(0, at + 1).join('').length);
      const expected = [...memberRanges(text)].map(([name, { from, to }]) => {
        const own = certainties.filter((_, at) => {
          const begun = ends[at - 1] ?? 0;
          return begun < to && Math.max(ends[at] ?? 0, begun + 1) > from;
        });
        return [name, certaintyOf(own)];
      });
      expect(fieldCertainties(text, [...pieces.keys()], certainties, tokenizer(pieces))).toEqual(
        Object.fromEntries(expected),
      );
    }),
    { numRuns: tries(100, 1000) },
  );
});

test('a long answer of many members, and one of many tokens, take time in proportion', () => {
  const pieces = Array.from({ length: 200_000 }, (_, at) => `${at === 0 ? '{' : ','}"k${at}":${at}`);
  const certainties = pieces.map((_, at) => (at % 4) / 4);
  const found = fieldCertainties(`${pieces.join('')}}`, [...pieces.keys()], certainties, tokenizer(pieces));
  expect(Object.keys(found ?? {})).toHaveLength(200_000);
  expect(found?.['k7']).toEqual({ mean: 0.75, least: 0.75 });
  expect(certaintyOf(certainties)).toEqual({ mean: 0.375, least: 0 });
});
