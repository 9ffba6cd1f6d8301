import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { stagedPages } from '../../../src/engine/memory/PagePlacement.js';
import { longestRow, mostComing, placePages, type CacheRules } from '../../../src/engine/memory/placePages.js';

const range = (
  firstPosition: number,
  tokens: number,
): { row: number; firstPosition: number; tokens: number; head: 'none' } => ({
  row: 0,
  firstPosition,
  tokens,
  head: 'none',
});
/** Two pages in memory, three on disk, the last one in memory. */
const TABLE = { entries: [1, 2, -1, -2, -3, 0], tail: 0 };

describe('stagedPages', () => {
  test.each([
    ['nothing while pages in memory are filled', 0, 7, 0, { loads: 0, stores: 0 }],
    ['nothing while a page of the disk is begun', 8, 3, 0, { loads: 0, stores: 0 }],
    ['a page of the disk when it is complete', 11, 1, 0, { loads: 0, stores: 1 }],
    ['all that are complete when the next token comes', 20, 1, 0, { loads: 3, stores: 0 }],
    ['what a chunk completes, and what it needs', 13, 7, 0, { loads: 1, stores: 2 }],
    ['no page that the window has left behind', 20, 1, 4, { loads: 1, stores: 0 }],
    ['the page in which the window begins', 20, 1, 6, { loads: 2, stores: 0 }],
    ['what was completed, whatever the window', 19, 1, 1, { loads: 0, stores: 1 }],
  ])('%s', (_, first, tokens, window, expected) => {
    expect(stagedPages(range(first, tokens), TABLE, 4, window)).toEqual(expected);
  });

  test('nothing for a row that is all in memory', () => {
    expect(stagedPages(range(20, 1), { entries: [1, 2, 3, 4, 5, 6], tail: -1 }, 4, 0)).toEqual({ loads: 0, stores: 0 });
  });

  test('every page of the disk is stored once, and loaded by every range that comes after, however the row is cut', () => {
    fc.assert(
      fc.property(fc.array(fc.integer({ min: 1, max: 9 }), { maxLength: 20 }), (cuts) => {
        let first = 0;
        let [stores, loads, due] = [0, 0, 0];
        for (const tokens of cuts) {
          if (first + tokens > 24) break;
          const staged = stagedPages(range(first, tokens), TABLE, 4, 0);
          due += stores;
          stores += staged.stores;
          loads += staged.loads;
          first += tokens;
        }
        expect(stores).toBe([2, 3, 4].filter((page) => (page + 1) * 4 <= first).length);
        expect(loads).toBe(due);
      }),
    );
  });
});

test('where pages come to a GPU the longest row is one that a buffer there holds', () => {
  const rules = { pageTokens: 4, gpuShare: 0.5, diskShare: 0, mostDiskPages: 0 };
  const capacity = { gpu: 100, memory: 100, disk: 0 };
  expect(longestRow(capacity, rules)).toBe(4 * 200);
  expect(longestRow(capacity, { ...rules, mostFetchedPages: 30 })).toBe(4 * (30 + 31));
  expect(longestRow(capacity, { ...rules, mostElsewherePages: 30 })).toBe(4 * (30 + 31));
  // Of pages elsewhere half come: 30 of 60, beside as many that are there.
  expect(longestRow(capacity, { ...rules, attendedShare: 0.75, mostFetchedPages: 31 })).toBe(4 * 121);
});

describe('where the processor and a GPU share attention', () => {
  const shares = fc.record({
    gpu: fc.double({ min: 0, max: 1, noNaN: true }),
    host: fc.double({ min: 0, max: 1, noNaN: true }),
    disk: fc.constantFrom(0, 0.2, 0.5),
  });

  test('a row has the same pages everywhere, and the GPU attends to its share of them, those that are there at least', () => {
    fc.assert(
      fc.property(shares, fc.integer({ min: 1, max: 500 }), ({ gpu, host, disk }, positions) => {
        const gpuShare = Math.min(gpu, 1 - disk);
        const rules = { pageTokens: 4, gpuShare, diskShare: disk, mostDiskPages: 50 };
        const attendedShare = 1 - host * (1 - gpuShare);
        const plain = placePages(positions, rules);
        const { pages, attendedPages = NaN } = placePages(positions, { ...rules, attendedShare });
        expect(plain.attendedPages).toBeUndefined();
        expect(pages).toEqual(plain.pages);
        const all = pages.gpu + pages.memory + pages.disk;
        expect(attendedPages).toBeGreaterThanOrEqual(pages.gpu);
        expect(attendedPages).toBeLessThanOrEqual(all);
        expect(Math.abs(attendedPages - all * attendedShare)).toBeLessThanOrEqual(1.5);
        if (disk === 0)
          expect(placePages(positions, { ...rules, gpuShare: attendedShare }).pages.gpu).toBe(attendedPages);
      }),
    );
  });

  test('a row is no longer than the buffer holds of it, nor is any shorter one', () => {
    const coming = (positions: number, rules: CacheRules): number => {
      const { pages, attendedPages = NaN } = placePages(positions, rules);
      return attendedPages - pages.gpu;
    };
    // Of 128 pages 76 come, of 127 it is 77.
    const rules = { pageTokens: 32, gpuShare: 0.2, diskShare: 0, mostDiskPages: 0, attendedShare: 0.8 };
    expect([coming(4096, rules), coming(127 * 32, rules)]).toEqual([76, 77]);
    expect(mostComing(4096, rules)).toBe(77);
    expect(longestRow({ gpu: 500, memory: 500, disk: 0 }, { ...rules, mostFetchedPages: 76 })).toBeLessThan(127 * 32);
    fc.assert(
      fc.property(shares, fc.integer({ min: 1, max: 300 }), ({ gpu, host, disk }, pages) => {
        const gpuShare = Math.min(gpu, 1 - disk);
        const given = {
          pageTokens: 1,
          gpuShare,
          diskShare: disk,
          mostDiskPages: Infinity,
          attendedShare: 1 - host * (1 - gpuShare),
        };
        const most = mostComing(pages, given);
        for (let shorter = 1; shorter <= pages; shorter++) expect(coming(shorter, given)).toBeLessThanOrEqual(most);
        expect(most).toBeLessThanOrEqual(placePages(pages, given).pages.memory + placePages(pages, given).pages.disk);
      }),
    );
  });

  test('what rows share counts as attended to from the first page', () => {
    const row = placePages(40, { pageTokens: 4, gpuShare: 0.2, diskShare: 0, mostDiskPages: 0, attendedShare: 0.6 });
    expect(row.attendedPages).toBe(6);
    expect(row.without(4).attendedPages).toBe(2);
    expect(row.without(8).attendedPages).toBe(0);
    expect(row.behind(3).attendedPages).toBe(6);
  });
});
