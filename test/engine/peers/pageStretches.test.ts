import { expect, test } from '@jest/globals';
import { MOST_PAGES_BYTES, pageStretches } from '../../../src/engine/peers/pageStretches.js';

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
    }
});
