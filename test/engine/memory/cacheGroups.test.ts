import { describe, expect, test } from '@jest/globals';
import { NO_PAGES } from '../../../src/engine/grid/pageCounts.js';
import { GIVEN_BACK } from '../../../src/engine/grid/PageTable.js';
import {
  cacheGroups,
  groupRules,
  KEEPS_NONE,
  oneGroup,
  type CacheGroups,
} from '../../../src/engine/memory/cacheGroups.js';
import { ALL_POSITIONS, firstSeen, lastChunk, lastPositions, sinksAndLast } from '../../../src/engine/grid/CacheLaw.js';
import { PagePool } from '../../../src/engine/memory/PagePool.js';
import { longestRow, placePages } from '../../../src/engine/memory/placePages.js';
import { PAGE_TOKENS } from '../../../src/plan/reserves.js';

/** Every `period`-th layer sees all positions. */
const patterned = (layers: number, period: number, window: number): number[] =>
  Array.from({ length: layers }, (_, layer) => ((layer + 1) % period === 0 ? 0 : window));
const SHAPES = {
  'Gemma 3 4B': { windows: patterned(34, 6, 1024), share: 0.38 },
  'gpt-oss 20b': { windows: patterned(24, 2, 128), share: 0.52 },
  'Gemma 3 270M': { windows: patterned(18, 6, 512), share: 0.28 },
} as const;
const ROW = 4000;

/** Pages of a pool that the layers' pages of a row fill which every layer keeps. */
const allPages = ({ width }: CacheGroups, layers: number): number => (Math.ceil(ROW / PAGE_TOKENS) * layers) / width;

describe('groups of layers', () => {
  test('are one where no layer gives anything back', () => {
    expect(cacheGroups([0, 0, 0], 4000)).toEqual(oneGroup(3));
    // A window that no row is longer than.
    expect(cacheGroups([0, 4096, 0], 4096)).toEqual(oneGroup(3));
    expect(cacheGroups([4096, 4096], 8192)).toMatchObject({ groupOf: [0, 0], width: 2 });
  });

  test('have one window each, every layer in one, all of like width, and hardly any room is empty', () => {
    for (const windows of [
      patterned(34, 6, 1024),
      patterned(26, 6, 512),
      patterned(62, 6, 1024),
      patterned(48, 6, 1024),
      patterned(7, 3, 16),
      [16, 32, 0, 16, 64],
    ]) {
      const { laws, groupOf, width } = cacheGroups(windows, 1e6);
      const members = laws.map((_, group) => windows.filter((__, layer) => groupOf[layer] === group));
      for (const each of members) {
        expect(new Set(each).size).toBe(1);
        expect(each.length).toBeLessThanOrEqual(width);
      }
      expect(members.flat()).toHaveLength(windows.length);
      expect(laws.length * width).toBeLessThanOrEqual(windows.length * (25 / 24));
      expect(laws.map((law) => law === ALL_POSITIONS)).toEqual(members.map(([window]) => window === 0));
    }
  });

  test('hold as many pages of a window as its tokens can touch, and let go of those before it alone', () => {
    for (const window of [1, 2, 31, 32, 33, 1024])
      for (const tokens of [1, 2, 17, 32, 512]) {
        const law = lastPositions(window);
        let most = 0;
        for (let through = 0; through < 3000; through++) {
          const kept = law.letGo(through, 32);
          // The first token that is to come sees this position, and none before.
          const first = Math.max(0, through - window + 1);
          expect(kept).toBe(Math.floor(first / 32));
          most = Math.max(most, Math.ceil((through + tokens) / 32) - kept);
        }
        expect(law.mostPages(tokens, 32)).toBeGreaterThanOrEqual(most);
        expect(law.mostPages(tokens, 32)).toBeLessThanOrEqual(most + 1);
      }
  });

  test('let nothing go of a window as long as a row, whatever layers without one let go', () => {
    const { laws, groupOf } = cacheGroups([0, 64, 200, 0], 100, sinksAndLast({ sinks: 4, window: 20 }));
    const letGo = groupOf.map((group) => laws[group]?.letGo(99, 8));
    expect(letGo).toEqual([10, 4, 0, 10]);
    expect(groupOf.map((group) => laws[group]?.stays(8))).toEqual([1, 0, 0, 1]);
    expect(lastChunk(16).stays(8)).toBe(0);
  });

  test('hold of a chunk what its tokens can touch, and let go of whole chunks before it alone', () => {
    for (const chunk of [2, 31, 32, 33, 200])
      for (const tokens of [1, 17, 512]) {
        const law = lastChunk(chunk);
        let most = 0;
        for (let through = 0; through < 3 * chunk + 64; through++) {
          const kept = law.letGo(through, 32);
          if (kept !== Math.floor(firstSeen(-chunk, through) / 32)) expect({ chunk, through, kept }).toBeUndefined();
          most = Math.max(most, Math.ceil((through + tokens) / 32) - kept);
        }
        expect(law.mostPages(tokens, 32)).toBeGreaterThanOrEqual(most);
        expect(law.mostPages(tokens, 32)).toBeLessThanOrEqual(most + 1);
      }
    expect([0, 4, 5, 9, 10].map((position) => firstSeen(-5, position))).toEqual([0, 0, 5, 5, 10]);
    expect(cacheGroups([-8, 0, -8, 0], 100).laws.map((law) => law === ALL_POSITIONS)).toEqual([true, false]);
  });

  test('have pages of one size, and are as wide in bytes as they can be with hardly any room empty', () => {
    // Gemma 4 31B: 50 layers of 16 heads of 256 that slide, 10 of 4 heads of 512 that see everything.
    const windows = patterned(60, 6, 1024);
    const sizes = windows.map((window) => (window === 0 ? 2048 : 4096));
    const { laws, groupOf } = cacheGroups(windows, 1e6, ALL_POSITIONS, sizes);
    const bytes = laws.map((_, group) =>
      sizes.reduce((sum, size, layer) => sum + (groupOf[layer] === group ? size : 0), 0),
    );
    const kept = sizes.reduce((sum, size) => sum + size, 0);
    expect(bytes.reduce((sum, size) => sum + size, 0)).toBe(kept);
    expect(laws.length * Math.max(...bytes)).toBeLessThanOrEqual(kept * (25 / 24));
    expect(laws.map((law) => law === ALL_POSITIONS).filter(Boolean)).toHaveLength(1);
    for (const [group] of laws.entries())
      expect(new Set(sizes.filter((_, layer) => groupOf[layer] === group)).size).toBe(1);
    // Those that read other layers' keys keep none: E2B has 15 of 35 that keep some.
    const shared = patterned(35, 5, 512).map((window, layer) => (layer < 15 ? window : KEEPS_NONE));
    const e2b = cacheGroups(
      shared,
      1e6,
      ALL_POSITIONS,
      shared.map((window) => (window === 0 ? 2 : 1)),
    );
    expect(e2b.laws).toHaveLength(3);
  });

  test.each(Object.entries(SHAPES))('%s: a row of 4,000 tokens holds the closed form', (_, { windows, share }) => {
    const groups = cacheGroups(windows, 8192);
    const rules = groupRules(groups, { tokensPerSquare: 512 });
    const pool = new PagePool(4000, PAGE_TOKENS, undefined, undefined, rules);
    const run = pool.openRun();
    const row = run.admission(1).admit(0, { promptTokens: 3000, positions: ROW });
    if (!row) throw new Error('no room for one row');
    const advance = (end: number): void => {
      const first = row.next;
      expect(pool.has(row.lacks(end))).toBe(true);
      row.growTo(end);
      row.left(first);
    };
    for (let end = 512; end < 3000; end += 512) advance(end);
    advance(3000);
    // Beside the last square the prompt has what its window sees.
    expect(pool.peakUsed.memory).toBeLessThanOrEqual(row.placement.pages.memory);
    while (row.next < ROW) advance(row.next + 1);
    const closedForm = groups.laws.reduce(
      (sum, law) => sum + Math.min(Math.ceil(ROW / PAGE_TOKENS), law.mostPages(1, PAGE_TOKENS)),
      0,
    );
    expect(pool.used.memory).toBeLessThanOrEqual(closedForm);
    expect(pool.used.memory).toBeGreaterThanOrEqual(closedForm - groups.laws.length);
    expect(pool.used.memory / allPages(groups, windows.length)).toBeCloseTo(share, 1.7);
    const tables = [row.entries, ...(row.further ?? []).map(({ entries }) => entries)];
    expect(tables.filter((entries) => entries[0] !== GIVEN_BACK)).toHaveLength(
      groups.laws.filter((law) => law === ALL_POSITIONS).length,
    );
    row.release();
    run.close();
    expect(pool.used).toEqual(NO_PAGES);
  });

  test.each(Object.entries(SHAPES))('%s: more rows come in under a cap than with all pages kept', (_, { windows }) => {
    const groups = cacheGroups(windows, 8192);
    const rowsIn = (each: CacheGroups): number => {
      // As many bytes, whatever the width of a page.
      const pages = Math.floor((windows.length * 1250) / each.width);
      const pool = new PagePool(pages, PAGE_TOKENS, undefined, undefined, groupRules(each, { tokensPerSquare: 256 }));
      const run = pool.openRun();
      let rows = 0;
      for (; rows < 100; rows++) if (!run.admission(1).admit(rows, { promptTokens: 3000, positions: ROW })) break;
      return rows;
    };
    expect(rowsIn(oneGroup(windows.length))).toBe(10);
    expect(rowsIn(groups)).toBeGreaterThanOrEqual(16);
  });

  test('of windows alone hold rows longer than all pages together', () => {
    const groups = [lastPositions(64)];
    const rules = { pageTokens: 32, diskShare: 0, mostDiskPages: 0, groups, promptTokensUnderWay: 64 };
    expect(longestRow({ gpu: 0, memory: 10, disk: 0 }, rules)).toBeGreaterThan(1e6);
    expect(placePages(1e5, rules).pages).toEqual({ gpu: 0, memory: 5, disk: 0 });
    // Rows that no window is shorter than give nothing back: all of them may be shared.
    expect(placePages(64, rules).wholePages).toBe(2);
    expect(placePages(4000, rules).wholePages).toBe(0);
  });
});
