import { expect, test } from '@jest/globals';
import { bytesOfPrompt, movingPages, pageStretches } from '../../../src/engine/peers/pageStretches.js';
import { MOST_PAGES_BYTES } from '../../../src/plan/reserves.js';

test('all pages but those of the last token alone, a message no larger than it may be', () => {
  const pageTokens = 32;
  for (const pageBytes of [1000, MOST_PAGES_BYTES / 3, 2 * MOST_PAGES_BYTES])
    for (const [tokens, pages] of [
      [2, 1],
      [33, 1],
      [34, 2],
      [1000, 32],
    ] as const) {
      let next = 0;
      for (const { first, count } of pageStretches(tokens, { pageTokens, pageBytes })) {
        expect(first).toBe(next);
        expect(count === 1 || count * pageBytes <= MOST_PAGES_BYTES).toBe(true);
        next += count;
      }
      expect(next).toBe(pages);
      expect(bytesOfPrompt(tokens, { pageTokens, pageBytes })).toBe(pages * pageBytes);
    }
});

test('prompts on their way have a quarter of the cache at most, and leave it the longest row that is provided for', () => {
  const of = (pages: number, pageBytes: number, contextTokens: number): number =>
    movingPages({ pages, pageTokens: 32, pageBytes, contextTokens });
  expect(of(4096, 2 ** 22, 1e6)).toBe(128);
  expect(of(4096, 2 ** 17, 1e6)).toBe(512);
  expect(of(256, 2 ** 22, 1e6)).toBe(64);
  expect(of(140, 2 ** 22, 1e6)).toBe(12);
  expect(of(100, 2 ** 22, 1e6)).toBe(0);
  expect(of(16, 2048, 128)).toBe(4);
  expect(of(4, 2048, 128)).toBe(0);
});
