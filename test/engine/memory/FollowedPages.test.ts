import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { PeerError } from '../../../src/errors/engineErrors.js';
import type { FollowedPages, FollowedPrefix } from '../../../src/engine/memory/FollowedPages.js';
import { PagePool, type RunPages } from '../../../src/engine/memory/PagePool.js';
import type { RowPages } from '../../../src/engine/memory/RowPages.js';
import type { SharedPrefix } from '../../../src/engine/memory/PageNumbers.js';

const PAGE_TOKENS = 4;
const NOTHING: SharedPrefix = { pages: [], own: [] };

interface OpenRow {
  readonly pages: RowPages;
  readonly prefix: FollowedPrefix;
}

function following(pages = 20): { readonly pool: PagePool; readonly run: RunPages; readonly followed: FollowedPages } {
  const pool = new PagePool(pages, PAGE_TOKENS);
  const run = pool.openRun();
  return { pool, run, followed: run.followed };
}

/** A row with a prompt of so many tokens, computed up to `next`. */
function open(
  { run, followed }: ReturnType<typeof following>,
  promptTokens: number,
  sharing: SharedPrefix,
  next = promptTokens,
): OpenRow {
  const prefix = followed.prefixOf(
    sharing,
    Array.from({ length: promptTokens }, (_, i) => i),
  );
  const pages = run.take(0, { promptTokens, positions: promptTokens + 3 }, prefix);
  if (!pages) throw new Error('no room');
  followed.opened(prefix);
  if (next > 0) {
    pages.growTo(next);
    pages.wrote(next);
  }
  return { pages, prefix };
}

function end({ followed }: ReturnType<typeof following>, { pages, prefix }: OpenRow): void {
  followed.closed(prefix);
  pages.copied();
  pages.release();
}

describe('FollowedPages', () => {
  test('a row begins with the pages that it is told, and copies the one in which they end', () => {
    const there = following();
    const first = open(there, 10, { pages: [], own: [5, 6, 9] });
    const second = open(there, 12, { pages: [5, 6], copy: { page: 9, position: 10 }, own: [7] });
    expect(second.pages.entries.slice(0, 2)).toEqual(first.pages.entries.slice(0, 2));
    expect(second.pages.entries[2]).not.toBe(first.pages.entries[2]);
    expect(second.pages).toMatchObject({ sharedTokens: 10, copy: { from: first.pages.entries[2], position: 10 } });
    expect(there.pool.used.memory).toBe(4);
    end(there, first);
    end(there, second);
    // They are kept for rows to come until it is said that they are not.
    expect(there.pool.used.memory).toBe(4);
    for (const page of [9, 5, 7, 6]) there.followed.free(page);
    expect(there.pool.used.memory).toBe(0);
  });

  test('a page that is free stays until nobody holds or copies it here', () => {
    const there = following();
    const first = open(there, 6, { pages: [], own: [0, 1] });
    const second = open(there, 8, { pages: [0], copy: { page: 1, position: 6 }, own: [] });
    there.followed.closed(first.prefix);
    first.pages.release();
    // The row that copies from it is open, and has not been through: it is the first engine's to know that.
    there.followed.free(1);
    expect(there.pool.used.memory).toBe(3);
    second.pages.copied();
    expect(there.pool.used.memory).toBe(2);
    there.followed.closed(second.prefix);
    there.followed.free(0);
    expect(there.pool.used.memory).toBe(2);
    second.pages.release();
    expect(there.pool.used.memory).toBe(0);
  });

  test('whoever waits for memory hears of a page that comes free; the end of the run frees what is left', () => {
    const there = following();
    let heard = 0;
    there.pool.released$.subscribe(() => heard++);
    end(there, open(there, 8, { pages: [], own: [0, 1] }));
    expect(heard).toBe(1);
    there.followed.free(1);
    expect(heard).toBe(2);
    there.run.close();
    expect(there.pool.used.memory).toBe(0);
  });

  test('a row that does not fit takes nothing, and what it shares counts once', () => {
    const there = following(4);
    open(there, 8, { pages: [], own: [0, 1] });
    const prompt = Array.from({ length: 13 }, (_, i) => i);
    const take = (sharing: SharedPrefix) =>
      there.run.take(0, { promptTokens: 13, positions: 16 }, there.followed.prefixOf(sharing, prompt));
    expect(take({ pages: [0], own: [2] })).toBeUndefined();
    expect(there.pool.used.memory).toBe(2);
    expect(take({ pages: [0, 1], own: [2] })?.entries).toHaveLength(4);
    expect(there.pool.used.memory).toBe(4);
  });

  const copyOf = (page: number, position: number): SharedPrefix => ({ pages: [0], copy: { page, position }, own: [] });
  const cases: readonly (readonly [SharedPrefix, string])[] = [
    [{ ...NOTHING, pages: [3] }, '.pages: found 3, expected the number of a page that rows share'],
    [{ ...NOTHING, pages: [1] }, '.pages: found 1, which begins at position 4, expected one that begins at 0'],
    [{ ...NOTHING, pages: [0, 1] }, '.pages: found 1, of which 1 tokens have been computed, expected 4'],
    [copyOf(1, 6), '.copy.page: found 1, of which 1 tokens have been computed, expected 2'],
    [copyOf(0, 5), '.copy.page: found 0, which begins at position 0, expected one that begins at 4'],
    [copyOf(9, 5), '.copy.page: found 9, expected the number of a page that rows share'],
    [copyOf(1, 4), '.copy.position: found 4, expected one within the page of position 4, after its first'],
    [copyOf(1, 8), '.copy.position: found 8, expected one within the page of position 4, after its first'],
    [copyOf(1, 10), ": found 10 tokens that others have computed, expected fewer than the row's 10"],
    [{ ...NOTHING, own: [1] }, ".own: found 1, which is another page's, expected a number that none has"],
    [{ ...NOTHING, own: [5, 6, 5] }, '.own: found a number twice, expected each once'],
    [
      { pages: [0], own: [5, 6, 7] },
      ".own: found 3 pages, expected at most the 2 of the row's prompt that are its own",
    ],
  ];
  test.each(cases)('refuses %j', (sharing, words) => {
    const there = following();
    open(there, 8, { pages: [], own: [0, 1] }, 5);
    expect(() => open(there, 10, sharing)).toThrow(new PeerError(`open.sharing${words}`));
    expect(there.pool.used.memory).toBe(2);
  });

  test('refuses to free what rows hold, and what nobody has, or no longer', () => {
    const there = following();
    const row = open(there, 4, { pages: [], own: [0] });
    expect(() => {
      there.followed.free(0);
    }).toThrow(new PeerError('free.page: found 0, which 1 rows hold, expected one that none holds'));
    end(there, row);
    there.followed.free(0);
    expect(() => {
      there.followed.free(0);
    }).toThrow(new PeerError('free.page: found 0, expected the number of a page that rows share'));
    expect(there.pool.used.memory).toBe(0);
  });

  test('what a row has not computed before its end is not to be had afterwards', () => {
    const there = following();
    end(there, open(there, 8, { pages: [], own: [0, 1] }, 6));
    expect(open(there, 9, { pages: [0], copy: { page: 1, position: 6 }, own: [] }).pages.sharedTokens).toBe(6);
    expect(() => open(there, 9, { pages: [0, 1], own: [] })).toThrow(PeerError);
  });

  test('whatever is said, in any order: a PeerError or what was meant, no page is two things at once, and all come back', () => {
    const small = fc.nat(5);
    const step = fc.oneof(
      fc.record({
        kind: fc.constant('open' as const),
        promptTokens: fc.integer({ min: 1, max: 14 }),
        next: fc.nat(14),
        pages: fc.array(small, { maxLength: 3 }),
        own: fc.array(small, { maxLength: 3 }),
        copy: fc.option(fc.record({ page: small, position: fc.nat(12) }), { nil: undefined }),
      }),
      fc.record({
        kind: fc.constantFrom('copied' as const, 'close' as const, 'release' as const, 'free' as const),
        which: small,
      }),
    );
    fc.assert(
      fc.property(fc.array(step, { maxLength: 40 }), (steps) => {
        const there = following(12);
        const rows: (OpenRow & { closed: boolean })[] = [];
        for (const each of steps) {
          try {
            if (each.kind === 'open') {
              const { pages, own, copy, promptTokens, next } = each;
              const sharing = { pages, own, ...(copy && { copy }) };
              rows.push({ ...open(there, promptTokens, sharing, Math.min(next, promptTokens)), closed: false });
            } else if (each.kind === 'free') there.followed.free(each.which);
            else {
              const row = rows[each.which];
              if (!row) continue;
              if (each.kind === 'copied') row.pages.copied();
              else {
                if (!row.closed) there.followed.closed(row.prefix);
                row.closed = true;
                if (each.kind === 'release') rows.splice(each.which, 1)[0]?.pages.release();
              }
            }
          } catch (error) {
            if (!(error instanceof PeerError)) expect(error).toEqual(new Error('no room'));
          }
          // Pages that rows compute are theirs alone, and those that are shared are where they were computed.
          const own = rows.flatMap(({ pages, prefix }) => pages.entries.slice(prefix.match.pages));
          expect(new Set(own).size).toBe(own.length);
          expect(there.pool.used.memory).toBeGreaterThanOrEqual(
            new Set(rows.flatMap(({ pages }) => pages.entries)).size,
          );
        }
        for (const { pages } of rows) pages.release();
        there.run.close();
        expect(there.pool.used.memory).toBe(0);
      }),
      { numRuns: 2000 },
    );
  });
});
