import { expect, test } from '@jest/globals';
import { rowLimitWords } from '../../../src/engine/rows/rowLimitWords.js';

test.each([
  ['pages', 'all the KV cache there is holds 64: give more memory'],
  [
    'keeper',
    'each engine keeps rows whole (attention by rows), and its KV cache holds 64: give more memory, or attention by heads, which divides them',
  ],
  ['buffers', /^a buffer for pages .* holds those of 64 .*: give a larger rowTokens, more gpuMemory$/],
  ['square', /^a square holds 64, .*: give more memory, or a larger tokensPerSquare$/],
] as const)('says what to give where a row is limited by %s', (by, words) => {
  if (typeof words === 'string') expect(rowLimitWords({ tokens: 64, by })).toBe(words);
  else expect(rowLimitWords({ tokens: 64, by })).toMatch(words);
});
