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
  expect(fetchedPages([[range(0, 0, 3), pages]], rules, 0)).toEqual({ loads: 0, stores: 0 });
  expect(fetchedPages([[range(0, 8, 1), pages]], rules, 0)).toEqual({ loads: 1, stores: 1 });
  expect(fetchedPages([[range(0, 9, 1), pages]], rules, 0)).toEqual({ loads: 2, stores: 1 });
  expect(fetchedPages([[range(0, 6, 8), pages]], rules, 0)).toEqual({ loads: 1, stores: 3 });
});

test('pages that no token sees stay where they are', () => {
  const pages = { entries: [1, 2, 3, 4], tail: -1 };
  expect(fetchedPages([[range(0, 13, 1), pages]], rules, 5)).toEqual({ loads: 2, stores: 1 });
  expect(fetchedPages([[range(0, 13, 1), pages]], rules, 6)).toEqual({ loads: 2, stores: 1 });
  expect(fetchedPages([[range(0, 13, 1), pages]], rules, 7)).toEqual({ loads: 3, stores: 1 });
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
      expect(fetchedPages(given, rules, 0)).toEqual({ loads: seen.size, stores });
    }),
  );
});
