import { expect, test } from '@jest/globals';
import fc from 'fast-check';
import { fetchedPages } from '../../../src/engine/memory/fetchedPages.js';

const rules = { pageTokens: 4, firstGpuPage: 100 };
const range = (row: number, firstPosition: number, tokens: number) => ({
  row,
  firstPosition,
  tokens,
  head: 'none' as const,
});

test('what was there before comes, what is new in goes back, wholly; what is on the GPU stays', () => {
  const pages = { entries: [101, 3, -2, 5], tail: 5 };
  expect(fetchedPages([[range(0, 0, 3), pages]], rules, 0)).toEqual({ loads: 0, stores: 0, groups: 1 });
  expect(fetchedPages([[range(0, 8, 1), pages]], rules, 0)).toEqual({ loads: 1, stores: 1, groups: 1 });
  expect(fetchedPages([[range(0, 9, 1), pages]], rules, 0)).toEqual({ loads: 2, stores: 1, groups: 1 });
  expect(fetchedPages([[range(0, 6, 8), pages]], rules, 0)).toEqual({ loads: 1, stores: 3, groups: 1 });
});

test('behind the pages that a GPU attends to none comes, and none goes back', () => {
  const pages = { entries: [101, 3, -2, 5], tail: 5, attendedPages: 2 };
  expect(fetchedPages([[range(0, 0, 3), pages]], rules, 0)).toEqual({ loads: 0, stores: 0, groups: 1 });
  expect(fetchedPages([[range(0, 4, 6), pages]], rules, 0)).toEqual({ loads: 0, stores: 1, groups: 1 });
  expect(fetchedPages([[range(0, 9, 1), pages]], rules, 0)).toEqual({ loads: 1, stores: 0, groups: 1 });
  expect(fetchedPages([[range(0, 9, 1), { ...pages, attendedPages: 0 }]], rules, 0)).toEqual({
    loads: 0,
    stores: 0,
    groups: 1,
  });
});

test('pages that no token sees stay where they are', () => {
  const pages = { entries: [1, 2, 3, 4], tail: -1 };
  expect(fetchedPages([[range(0, 13, 1), pages]], rules, 5)).toEqual({ loads: 2, stores: 1, groups: 1 });
  expect(fetchedPages([[range(0, 13, 1), pages]], rules, 6)).toEqual({ loads: 2, stores: 1, groups: 1 });
  expect(fetchedPages([[range(0, 13, 1), pages]], rules, 7)).toEqual({ loads: 3, stores: 1, groups: 1 });
});

test('pages in several tables come once', () => {
  const tables = fc.array(
    fc.record({
      shared: fc.nat(5),
      own: fc.integer({ min: 1, max: 3 }),
      begin: fc.nat(3),
      tokens: fc.integer({ min: 1, max: 4 }),
    }),
    { minLength: 1, maxLength: 6 },
  );
  fc.assert(
    fc.property(tables, (rows) => {
      const given = rows.map(({ shared, own, begin, tokens }, row) => {
        const entries = [
          ...Array.from({ length: shared }, (_, page) => page),
          ...Array.from({ length: own + 1 }, (_, page) => 10 * (row + 1) + page),
        ];
        const firstPosition = 4 * (shared + own - 1) + begin;
        return [range(row, firstPosition, tokens), { entries, tail: -1 }] as const;
      });
      const seen = new Set<number>();
      let stores = 0;
      for (const [{ firstPosition, tokens }, { entries }] of given) {
        for (let position = 0; position < firstPosition; position++) seen.add(entries[Math.floor(position / 4)] ?? -1);
        stores += new Set(Array.from({ length: tokens }, (_, i) => entries[Math.floor((firstPosition + i) / 4)])).size;
      }
      expect(fetchedPages(given, rules, 0)).toEqual({ loads: seen.size, stores, groups: 1 });
    }),
  );
});

test('where a buffer does not hold the pages of all rows they come group by group, what rows share once for each', () => {
  const given = [0, 1, 2, 3].map((row) => [range(row, 9, 1), { entries: [1, 2, 10 + row], tail: -1 }] as const);
  const inBuffers = (bufferPages: number): unknown => fetchedPages(given, { ...rules, bufferPages }, 0);
  expect(inBuffers(6)).toEqual({ loads: 6, stores: 4, groups: 1 });
  // Three rows and one; two and two; each by itself.
  expect(inBuffers(5)).toEqual({ loads: 8, stores: 4, groups: 2 });
  expect(inBuffers(4)).toEqual({ loads: 8, stores: 4, groups: 2 });
  expect(inBuffers(3)).toEqual({ loads: 12, stores: 4, groups: 4 });
});

test('rows with nothing to bring make no group of their own', () => {
  const there = [range(0, 9, 1), { entries: [101, 102, 103], tail: -1 }] as const;
  const here = [range(1, 9, 1), { entries: [1, 2, 3], tail: -1 }] as const;
  const alone = { loads: 3, stores: 1, groups: 1 };
  expect(fetchedPages([there, here, there], { ...rules, bufferPages: 3 }, 0)).toEqual(alone);
});
