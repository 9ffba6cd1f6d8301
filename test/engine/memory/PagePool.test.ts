import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { NO_PAGES, PAGE_TIERS, type PageTier } from '../../../src/engine/grid/pageCounts.js';
import { diagonalBlock } from '../../../src/engine/schedules/blockSchedules.js';
import { PagePool } from '../../../src/engine/memory/PagePool.js';
import { placePages } from '../../../src/engine/memory/placePages.js';
import type { RowPages } from '../../../src/engine/memory/RowPages.js';

const lengths = (promptTokens: number, newTokens: number): { promptTokens: number; positions: number } => ({
  promptTokens,
  positions: Math.max(1, promptTokens + newTokens - 1),
});

function at<T>(list: readonly T[], index: number): T {
  const found = list[index];
  if (found === undefined) throw new RangeError(`${index} of ${list.length}`);
  return found;
}

type PageTable3 = Record<PageTier, number[]>;

/** Every page that rows hold, by tier; the tail of a row counts once. */
function heldBy(rows: readonly RowPages[], firstOfGpu: number): PageTable3 {
  const there = rows.flatMap(({ entries, tail }) => [
    ...new Set([...entries.filter((entry) => entry >= 0), ...(tail >= 0 ? [tail] : [])]),
  ]);
  return {
    memory: there.filter((entry) => entry < firstOfGpu),
    gpu: there.filter((entry) => entry >= firstOfGpu).map((entry) => entry - firstOfGpu),
    disk: rows.flatMap(({ entries }) => entries.filter((entry) => entry < 0).map((entry) => -1 - entry)),
  };
}

describe('the pool of an engine that keeps some of the rows', () => {
  test.each([2, 3, 4])('of %i: each keeps its part, and no row waits where another one has room', (of) => {
    const [pageTokens, pagesOfRow, rowsOfEach] = [4, 5, 3];
    for (let index = 0; index < of; index++) {
      const pool = new PagePool(pagesOfRow * rowsOfEach, pageTokens, undefined, undefined, undefined, { index, of });
      const run = pool.openRun({ staggered: true, tokensPerSquare: 8, rowsPerSlot: 64 });
      const admission = run.admission(64);
      const rows: RowPages[] = [];
      for (;;) {
        const pages = admission.admit(rows.length, lengths(16, 5));
        if (!pages) break;
        rows.push(pages);
      }
      expect(rows).toHaveLength(of * rowsOfEach);
      for (let keeper = 0; keeper < of; keeper++)
        expect(rows.filter((each) => each.keeper === keeper)).toHaveLength(rowsOfEach);
      for (const each of rows) each.growTo(20);
      // 1 / n of the pages of all rows.
      expect(pool.used).toEqual({ ...NO_PAGES, memory: pagesOfRow * rowsOfEach });
      expect(pool.has({ ...NO_PAGES, memory: 1 }, (index + 1) % of)).toBe(false);
      // A row's place is free where it was kept.
      const { keeper } = at(rows, of);
      at(rows, of).release();
      expect(run.take(99, lengths(16, 5), undefined, (keeper + 1) % of)).toBeUndefined();
      expect(run.admission(1).admit(100, lengths(16, 5))?.keeper).toBe(keeper);
      for (const each of rows) each.release();
    }
  });

  test('each batch is spread over the engines, however many batches a schedule fills, and whenever rows end', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 2, max: 5 }),
        fc.integer({ min: 1, max: 5 }),
        fc.integer({ min: 1, max: 9 }),
        fc.array(fc.integer({ min: 1, max: 6 }), { minLength: 1, maxLength: 60 }),
        (of, slots, rowsPerSlot, newTokens) => {
          const grid = { layers: 1, slots, rowsPerSlot, tokensPerSquare: 64 };
          const keepers = { index: 0, of };
          const pool = new PagePool(5 * slots * rowsPerSlot, 4, undefined, undefined, undefined, keepers);
          const run = pool.openRun({ staggered: true, tokensPerSquare: 64, rowsPerSlot });
          const schedule = diagonalBlock();
          let state = schedule.start(grid);
          const rows = new Map<number, RowPages>();
          let [next, begun] = [0, false];
          const spread = (batch: readonly { readonly row: number }[]): number => {
            const counts = Array.from(
              { length: of },
              (_, keeper) => batch.filter(({ row }) => rows.get(row)?.keeper === keeper).length,
            );
            return Math.max(...counts) - Math.min(...counts);
          };
          do {
            const admission = run.admission(schedule.free(state, new Set()), slots);
            const admitted = [];
            for (let places = schedule.free(state, new Set()); places > 0 && next < newTokens.length; places--) {
              const pages = admission.admit(next, lengths(4, newTokens[next] ?? 1));
              if (!pages) break;
              rows.set(next, pages);
              admitted.push({ row: next, promptTokens: 4, newTokens: newTokens[next++] ?? 1 });
            }
            const newcomers = new Set(admitted.map(({ row }) => row));
            const sweep = schedule.next(state, { admitted, ended: new Set() });
            state = sweep.state;
            for (const { batch } of sweep.squares) {
              const old = batch.rows.filter(({ row }) => !newcomers.has(row));
              // Newcomers make up for what rows that ended have left uneven, and never add to it.
              expect(spread(batch.rows)).toBeLessThanOrEqual(begun ? Math.max(1, spread(old)) : 1);
              for (const { row, firstPosition, tokens } of batch.rows) {
                const pages = rows.get(row);
                if (!pages) throw new RangeError(`no row ${row}`);
                pages.slot = batch.slot;
                pages.growTo(firstPosition + tokens);
              }
            }
            begun = true;
            for (const [row, pages] of rows)
              if (!pages.advances) {
                pages.release();
                rows.delete(row);
              }
          } while (rows.size > 0 || next < newTokens.length);
          expect(pool.used).toEqual(NO_PAGES);
        },
      ),
    );
  });
});

describe('PagePool', () => {
  const row = fc.record({
    promptTokens: fc.integer({ min: 1, max: 40 }),
    newTokens: fc.integer({ min: 0, max: 40 }),
    endsAfter: fc.nat(80),
    batch: fc.nat(3),
  });
  const pools = fc
    .record({
      capacity: fc.integer({ min: 1, max: 40 }),
      pageTokens: fc.integer({ min: 1, max: 8 }),
      disk: fc.nat(40),
      share: fc.constantFrom(0, 0.3, 0.5, 1),
      mostPerRow: fc.nat(12),
      gpu: fc.nat(40),
      gpuShare: fc.constantFrom(0, 0.2, 0.5, 0.9, 1),
    })
    .map(({ gpuShare, ...setup }) => ({ ...setup, gpuShare: Math.min(gpuShare, 1 - setup.share) }));
  const poolOf = ({
    capacity,
    pageTokens,
    disk,
    share,
    mostPerRow,
    gpu,
    gpuShare,
  }: {
    capacity: number;
    pageTokens: number;
    disk: number;
    share: number;
    mostPerRow: number;
    gpu: number;
    gpuShare: number;
  }): PagePool =>
    new PagePool(capacity, pageTokens, { pages: disk, share, mostPerRow }, { pages: gpu, share: gpuShare });

  test('steady rows always find the pages they grow into, in micro-batches, too; no page has two holders, and all come back', () => {
    fc.assert(
      fc.property(
        pools,
        fc.array(row, { maxLength: 40 }),
        fc.integer({ min: 1, max: 4 }),
        fc.integer({ min: 4, max: 16 }),
        fc.boolean(),
        fc.integer({ min: 1, max: 3 }),
        (setup, waiting, rowsPerSlot, tokensPerSquare, staggered, microBatches) => {
          const pool = poolOf(setup);
          const run = pool.openRun({ rowsPerSlot, tokensPerSquare, staggered });
          const live: { pages: RowPages; next: number; decoded: number; endsAfter: number; part: number }[] = [];
          const parts = Array.from({ length: microBatches }, (_, part) => part);
          const rowsOf = (part: number): typeof live => live.filter((each) => each.part === part);
          let turn = 0;
          const queue = waiting.map((each) => ({
            ...lengths(each.promptTokens, each.newTokens),
            endsAfter: each.endsAfter,
          }));
          for (let sweep = 0; sweep < 2000 && (queue.length > 0 || live.length > 0); sweep++) {
            run.sweepPlanned(1 / microBatches);
            const admission = run.admission(microBatches * rowsPerSlot - live.length);
            while (live.length < microBatches * rowsPerSlot && queue[0]) {
              const pages = admission.admit(0, queue[0]);
              if (!pages) break;
              const part = parts.reduce((a, b) => (rowsOf(b).length < rowsOf(a).length ? b : a));
              live.push({ pages, next: 0, decoded: 0, endsAfter: queue[0].endsAfter, part });
              queue.shift();
            }
            if (live.length === 0) {
              // Alone in the pool and still refused: it can never fit.
              expect(queue[0]?.positions).toBeGreaterThan(pool.longestRow);
              queue.shift();
              continue;
            }
            // One steady sweep: decoding rows first, then prompts with what is left, oldest first.
            let left = tokensPerSquare;
            const moves = new Map<RowPages, number>();
            while (rowsOf(turn % microBatches).length === 0) turn++;
            const sweeping = rowsOf(turn++ % microBatches);
            for (const each of sweeping)
              if (each.next >= each.pages.lengths.promptTokens && left-- > 0) moves.set(each.pages, each.next + 1);
            for (const each of sweeping) {
              const prompt = Math.min(each.pages.lengths.promptTokens, each.pages.lengths.positions) - each.next;
              if (prompt > 0 && left > 0) {
                moves.set(each.pages, each.next + Math.min(prompt, left));
                left -= Math.min(prompt, left);
              }
            }
            for (const each of live) {
              const end = moves.get(each.pages);
              if (end === undefined) continue;
              expect(pool.has(each.pages.lacks(end))).toBe(true);
              each.pages.growTo(end);
              if (end > each.pages.lengths.promptTokens) each.decoded++;
              each.next = end;
              expect(each.pages.entries.length).toBeGreaterThanOrEqual(Math.ceil(end / setup.pageTokens));
            }
            const held = heldBy(
              live.map(({ pages }) => pages),
              setup.capacity,
            );
            for (const tier of PAGE_TIERS) {
              expect(new Set(held[tier]).size).toBe(held[tier].length);
              expect(held[tier].length).toBe(pool.used[tier]);
              expect(Math.max(0, ...held[tier])).toBeLessThan(
                Math.max(1, { gpu: setup.gpu, memory: setup.capacity, disk: setup.disk }[tier]),
              );
            }
            for (let i = live.length - 1; i >= 0; i--) {
              const each = live[i];
              if (each && (each.next >= each.pages.lengths.positions || each.decoded > each.endsAfter)) {
                each.pages.release();
                each.pages.release();
                live.splice(i, 1);
              }
            }
          }
          expect(queue.length + live.length).toBe(0);
          expect(pool.used).toEqual(NO_PAGES);
        },
      ),
      { numRuns: 300 },
    );
  });

  test.each<[string, () => PagePool]>([
    ['memory', () => new PagePool(1280, 4)],
    ['the GPU', () => new PagePool(0, 4, undefined, { pages: 1280, share: 1 })],
  ])('rows of different ages share %s at their average, rows of one age at their peak', (_, open) => {
    const [prompt, decoded] = [32, 96];
    const mostAtOnce = (blocks: boolean): { most: number; average: number } => {
      const pool = open();
      const run = pool.openRun({ rowsPerSlot: 128, tokensPerSquare: 128 * 32, staggered: !blocks });
      const live: { pages: RowPages; next: number }[] = [];
      let [most, sum] = [0, 0];
      for (let sweep = 0; sweep < 1000; sweep++) {
        run.sweepPlanned();
        const admission = run.admission(128 - live.length);
        while (!blocks || live.length < 40) {
          const pages =
            blocks && live.some(({ next }) => next > 0) ? undefined : admission.admit(0, lengths(prompt, decoded + 1));
          if (!pages) break;
          live.push({ pages, next: 0 });
        }
        most = Math.max(most, live.length);
        if (sweep >= 500) sum += live.length;
        for (const each of live) {
          each.next = each.next === 0 ? prompt : each.next + 1;
          each.pages.growTo(each.next);
        }
        for (const each of live.filter(({ next }) => next >= prompt + decoded)) {
          each.pages.release();
          live.splice(live.indexOf(each), 1);
        }
      }
      return { most, average: sum / 500 };
    };
    expect(mostAtOnce(true).most).toBe(40);
    const diagonal = mostAtOnce(false);
    // A block holds 1280 * 4 / (32 + 96) = 40 of these rows; (2s + 2n) / (2s + n) = 1.6. Whole pages and the last sweep
    // cost a little.
    expect(diagonal.most).toBeLessThanOrEqual(64);
    expect(diagonal.average).toBeGreaterThan(60);
  });

  test('several runs count every row in full', () => {
    const pool = new PagePool(10, 4);
    const [first, second] = [
      pool.openRun({ rowsPerSlot: 8, tokensPerSquare: 64, staggered: true }),
      pool.openRun({ rowsPerSlot: 8, tokensPerSquare: 64, staggered: true }),
    ];
    expect(first.admission(9).admit(0, lengths(4, 17))).toBeDefined();
    expect(second.admission(9).admit(0, lengths(4, 17))).toBeDefined();
    expect(pool.used.memory).toBe(2);
    expect(second.admission(9).admit(0, lengths(4, 1))).toBeUndefined();
  });

  test('says when something came free: a row, or a run', () => {
    const pool = new PagePool(2, 4);
    const run = pool.openRun();
    const pages = run.admission(9).admit(0, lengths(8, 1));
    let released = 0;
    pool.released$.subscribe(() => released++);
    pages?.release();
    pages?.release();
    expect(released).toBe(1);
    run.close();
    expect(released).toBe(2);
  });

  test('takes freed pages again before it touches new ones', () => {
    const run = new PagePool(100, 4).openRun();
    const first = run.admission(9).admit(0, lengths(12, 1));
    first?.release();
    expect(run.admission(9).admit(0, lengths(12, 1))?.entries).toEqual(first?.entries);
  });

  test.each([
    [
      'of rows that begin apart touch no more memory than those that are kept in any case',
      (row: number) => row,
      64 + 3,
    ],
    ['of which some begin alike are kept with more', (row: number) => row % 90, 2 * 90],
  ])('prompts %s', (_, first, touched) => {
    const pool = new PagePool(10_000, 4);
    const run = pool.openRun(undefined, true);
    const rows = Array.from({ length: 400 }, (_each, row) => ({
      row,
      path: run.expect(lengths(7, 2), [first(row), 0, 0, 0, 0, 0, 0]),
    }));
    for (const { row, path } of rows) {
      const pages = run.admission(1).admit(row, lengths(7, 2), path);
      pages?.growTo(7);
      pages?.wrote(7);
      if (path) run.forget(path);
      pages?.growTo(8);
      pages?.release();
    }
    expect(pool.peakUsed.memory).toBeLessThanOrEqual(touched + 2);
    expect(pool.peakUsed.memory).toBeGreaterThanOrEqual(touched - 2);
    run.close();
    expect(pool.used.memory).toBe(0);
  });

  test('the first pages and the last one are in memory, those between on disk', () => {
    const pool = new PagePool(100, 4, { pages: 100, share: 0.5, mostPerRow: 9 });
    const pages = pool.openRun().admission(9).admit(0, lengths(24, 1));
    expect(pages?.tail).toBe(0);
    expect(pages?.entries).toEqual([1, 2, -1, -2, -3, 0]);
  });

  test('before those are pages of the GPU, numbered behind those of memory', () => {
    const pool = new PagePool(100, 4, { pages: 100, share: 0.5, mostPerRow: 9 }, { pages: 10, share: 0.25 });
    const pages = pool.openRun().admission(9).admit(0, lengths(32, 1));
    expect(pages?.entries).toEqual([100, 101, 1, -1, -2, -3, -4, 0]);
    expect(pool.used).toEqual({ gpu: 2, memory: 2, disk: 4 });
    pages?.release();
    expect(pool.used).toEqual(NO_PAGES);
    const all = new PagePool(0, 4, undefined, { pages: 3, share: 1 });
    expect(all.openRun().admission(9).admit(0, lengths(9, 1))?.entries).toEqual([0, 1, 2]);
    expect(all.longestRow).toBe(12);
  });

  test('a longer row has no fewer pages of any tier, and shares are kept to the page', () => {
    const share = fc.nat(10);
    fc.assert(
      fc.property(share, share, share, fc.nat(20), fc.integer({ min: 1, max: 60 }), (g, c, d, most, pages) => {
        const sum = Math.max(1, g + c + d);
        const rules = { pageTokens: 1, gpuShare: g / sum, diskShare: d / sum, mostDiskPages: most };
        const [row, longer] = [placePages(pages, rules).pages, placePages(pages + 1, rules).pages];
        for (const tier of PAGE_TIERS) expect(longer[tier]).toBeGreaterThanOrEqual(row[tier]);
        expect(row.gpu + row.memory + row.disk).toBe(pages);
        expect(Math.abs(row.gpu - pages * rules.gpuShare)).toBeLessThanOrEqual(1.5);
        expect(row.disk - pages * rules.diskShare).toBeLessThanOrEqual(1);
        if (most >= pages) expect(row.disk).toBeGreaterThanOrEqual(pages * rules.diskShare - 1.5);
        if (row.disk > 0) expect(row.memory).toBeGreaterThan(0);
      }),
    );
  });

  test('the longest row is the longest that is admitted', () => {
    fc.assert(
      fc.property(pools, (setup) => {
        const pool = poolOf(setup);
        const admits = (positions: number): boolean =>
          pool.openRun().admission(9).admit(0, { promptTokens: 1, positions }) !== undefined;
        if (pool.longestRow > 0) expect(admits(pool.longestRow)).toBe(true);
        expect(admits(pool.longestRow + 1)).toBe(false);
      }),
    );
  });
});

test('what holds no longer row are the pages that there are, or buffers on the GPU', () => {
  const limit = (mostFetched: number): unknown =>
    new PagePool(10, 4, undefined, { pages: 10, share: 0.5, mostFetched }).rowLimit;
  expect(limit(Infinity)).toEqual({ tokens: 80, by: 'pages' });
  expect(limit(10)).toEqual({ tokens: 80, by: 'pages' });
  expect(limit(4)).toEqual({ tokens: 36, by: 'buffers' });
  const keeper = new PagePool(10, 4, undefined, undefined, undefined, { index: 1, of: 2 });
  expect(keeper.rowLimit).toEqual({ tokens: 40, by: 'keeper' });
});

test('a limit holds until it is taken back, and the least of some holds', () => {
  const pool = new PagePool(10, 4);
  const pages = (memory: number): { gpu: number; memory: number; disk: number } => ({ gpu: 0, memory, disk: 0 });
  const longest = pool.longestRow;
  let released = 0;
  pool.released$.subscribe(() => released++);
  const [loose, tight] = [pool.limitTo(pages(6)), pool.limitTo(pages(3))];
  expect([pool.has(pages(3)), pool.has(pages(4))]).toEqual([true, false]);
  tight();
  tight();
  expect([pool.has(pages(6)), pool.has(pages(7))]).toEqual([true, false]);
  loose();
  expect([pool.has(pages(10)), pool.longestRow, released]).toEqual([true, longest, 2]);
});

test('so does one on the pages of a row that come to a GPU', () => {
  const pool = new PagePool(10, 4, undefined, { pages: 0, share: 0, mostFetched: 7 });
  const pages = { gpu: 0, memory: 10, disk: 0 };
  expect(pool.longestRow).toBe(28);
  const [loose, tight, none] = [pool.limitTo(pages, 9), pool.limitTo(pages, 3), pool.limitTo(pages)];
  expect(pool.longestRow).toBe(12);
  tight();
  expect(pool.longestRow).toBe(28);
  loose();
  none();
  const onCpu = new PagePool(10, 4);
  const free = onCpu.limitTo(pages, 5);
  expect(onCpu.longestRow).toBe(20);
  free();
  expect(onCpu.longestRow).toBe(40);
});
