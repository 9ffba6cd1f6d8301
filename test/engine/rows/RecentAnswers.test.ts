import { expect, test } from '@jest/globals';
import { copyOf, heapBytes, RecentAnswers } from '../../../src/engine/rows/RecentAnswers.js';
import { answers } from '../../reuse/support/answers.js';

import fc from 'fast-check';

interface Answer {
  readonly text: string;
  readonly tokens: readonly number[];
}
const answer = (length: number): Answer => ({ text: 'x'.repeat(length), tokens: [1] });

test('the one that was asked for longest ago goes first', () => {
  const recent = new RecentAnswers<Answer>({ rows: 2, bytes: 1e6 });
  recent.put('a', answer(1));
  recent.put('b', answer(2));
  expect(recent.get('a')).toEqual(answer(1));
  recent.put('c', answer(3));
  expect([recent.get('a')?.text, recent.get('b'), recent.get('c')?.text]).toEqual(['x', undefined, 'xxx']);
});

test('an answer that is larger than all of them may be is not kept, and the others go before it', () => {
  const recent = new RecentAnswers<Answer>({ rows: 10, bytes: 5000 });
  recent.put('a', answer(100));
  recent.put('b', answer(5000));
  expect([recent.get('a'), recent.get('b')]).toEqual([undefined, undefined]);
  recent.put('c', answer(100));
  expect(recent.get('c')).toBeDefined();
});

test('no more are kept than may be, and the last ones are, whatever is put again', () => {
  fc.assert(
    fc.property(
      fc.array(fc.tuple(fc.integer({ min: 0, max: 9 }), fc.integer({ min: 0, max: 400 })), { maxLength: 60 }),
      fc.integer({ min: 1, max: 5 }),
      (puts, rows) => {
        const recent = new RecentAnswers<Answer>({ rows, bytes: 1e6 });
        for (const [key, length] of puts) recent.put(String(key), answer(length));
        const last = [...new Set(puts.map(([key]) => key).reverse())];
        const kept = last.filter((key) => recent.get(String(key)) !== undefined);
        expect(kept).toEqual(last.slice(0, rows));
        for (const key of kept)
          expect(recent.get(String(key))?.text.length).toBe(puts.findLast(([each]) => each === key)?.[1]);
      },
    ),
  );
});

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
