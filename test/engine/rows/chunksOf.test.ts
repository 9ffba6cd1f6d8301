import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { drained } from '../../../src/collections/drained.js';
import { chunksOf, type Chunk, type ChunkRules } from '../../../src/engine/rows/chunksOf.js';
import type { Tokenizer } from '../../../src/model/Tokenizer.js';
import { open } from '../../model/tokenizer/fixtures.js';
import { letterTokenizer } from '../../support/wordTokenizer.js';

const parts = (
  text: string,
  tokens: number,
  overlap = 0,
  tokenizer: Tokenizer = letterTokenizer(),
): readonly Chunk[] => {
  const rules: ChunkRules = { tokens, overlap, parseSpecial: true };
  return drained(chunksOf(text, rules, tokenizer));
};
const texts = (text: string, chunks: readonly Chunk[]): readonly string[] =>
  chunks.map(({ from, to }) => text.slice(from, to));

describe('parts of a text', () => {
  test('have so many tokens, and begin as many before the end of the one before as they overlap', () => {
    expect(texts('abcdefgh', parts('abcdefgh', 3))).toEqual(['abc', 'def', 'gh']);
    expect(texts('abcdefgh', parts('abcdefgh', 3, 1))).toEqual(['abc', 'cde', 'efg', 'gh']);
    expect(texts('abcdef', parts('abcdef', 4, 2))).toEqual(['abcd', 'cdef']);
    expect(texts('abc', parts('abc', 3, 2))).toEqual(['abc']);
    expect(texts('', parts('', 3))).toEqual(['']);
    expect(texts('abcd', parts('abcd', 1))).toEqual(['a', 'b', 'c', 'd']);
  });

  test.each(['smollm', 'llama2', 'wordpiece', 'unigram'])(
    'never end within a character, of the tokens of %s',
    (kind) => {
      const tokenizer = open(kind);
      const characters = fc.constantFrom(
        'a',
        ' the',
        'ü',
        '€',
        '👩‍👩‍👧',
        '🇩🇪',
        'e\u0301',
        '\n',
        '漢',
        '\r\n',
        'zz',
        '1234',
      );
      fc.assert(
        fc.property(
          fc.array(characters, { maxLength: 120 }).map((list) => list.join('')),
          fc.integer({ min: 1, max: 24 }),
          fc.nat(23),
          (text, tokens, given) => {
            const overlap = Math.min(given, tokens - 1);
            const chunks = parts(text, tokens, overlap, tokenizer);
            const points = [...text];
            const ends = new Set([0, text.length]);
            for (const { index } of new Intl.Segmenter('en').segment(text)) ends.add(index);
            expect(chunks[0]?.from).toBe(0);
            expect(chunks.at(-1)?.to).toBe(text.length);
            for (const [at, { from, to, start, end }] of chunks.entries()) {
              expect(ends.has(from) && ends.has(to)).toBe(true);
              expect(points.slice(start, end).join('')).toBe(text.slice(from, to));
              const own = tokenizer.encode(text.slice(from, to), { specialTokens: false, continues: true }).length;
              const isOne = [...new Intl.Segmenter('en').segment(text.slice(from, to))].length === 1;
              expect(own <= tokens || isOne).toBe(true);
              const next = chunks[at + 1];
              if (next) expect(next.from > from && next.from <= to && next.to > to).toBe(true);
              if (next && overlap === 0) expect(next.from).toBe(to);
            }
          },
        ),
      );
    },
  );

  test('of a long text take time in proportion to it', () => {
    const text = 'word after word '.repeat(20_000);
    const chunks = parts(text, 64, 8, open('smollm'));
    expect(chunks.length).toBeGreaterThan(800);
    expect(texts(text, chunks).every((part) => part.length > 0)).toBe(true);
  });
});
