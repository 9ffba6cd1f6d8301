import { expect, test } from '@jest/globals';
import fc from 'fast-check';
import { copyOf, heapBytes } from '../../../src/engine/rows/answerData.js';
import { answers } from '../../reuse/support/answers.js';

test('a copy is the same, in the same order, and nothing of it is the original', () => {
  fc.assert(
    fc.property(answers, (answer) => {
      const copy = copyOf(answer);
      expect(copy).toEqual(answer);
      expect(JSON.stringify(copy)).toBe(JSON.stringify(answer));
      const own = new Set(objects(answer));
      expect(objects(copy).some((object) => own.has(object))).toBe(false);
    }),
  );
});

test('what it takes grows with each part of it, and counts all of them', () => {
  expect(heapBytes({ text: 'ab' })).toBe(heapBytes({ text: '' }) + 4);
  const numbers = Array.from({ length: 100_000 }, (_, at) => at / 7);
  expect(heapBytes({ embedding: numbers })).toBeGreaterThanOrEqual(800_000);
  const entry = { token: 1, logprob: -1, top: [] };
  expect(heapBytes({ logprobs: Array.from({ length: 50_000 }, () => entry) })).toBeGreaterThan(50_000 * 64);
});

function objects(data: unknown): unknown[] {
  return typeof data === 'object' && data !== null ? [data, ...Object.values(data).flatMap(objects)] : [];
}
