import { describe, expect, test } from '@jest/globals';
import { HeldRows, type HeldRow } from '../../../src/engine/execution/HeldRows.js';
import type { Batch } from '../../../src/engine/grid/Square.js';
import { PagePool } from '../../../src/engine/memory/PagePool.js';

const PAGE_TOKENS = 4;
const batch = (firstPosition: number, tokens: number): Batch => ({
  pass: firstPosition,
  slot: 0,
  rows: [{ row: 0, firstPosition, tokens, head: 'none' }],
});

/** A row of 4 prompt tokens that may have 12 positions, in a pool of so many pages. */
function held(pages: number): { rows: HeldRows<HeldRow>; row: HeldRow; pool: PagePool; released: number[] } {
  const released: number[] = [];
  const pool = new PagePool(pages, PAGE_TOKENS);
  const rows = new HeldRows(
    { pool, steady: undefined },
    { released: (row) => released.push(row), freed: () => undefined },
  );
  const taken = rows.pages.take(0, { promptTokens: 4, positions: 12 });
  if (!taken) throw new Error('no pages');
  const row = { pages: taken, uses: 0, forgotten: false };
  rows.add(0, row);
  return { rows, row, pool, released };
}

describe('HeldRows', () => {
  test('takes the pages that a batch needs, all of them or none', () => {
    const { rows, pool } = held(2);
    expect(rows.makeRoom(batch(4, 8))).toBe(false);
    expect(pool.used.memory).toBe(1);
    expect(rows.makeRoom(batch(4, 4))).toBe(true);
    expect(pool.used.memory).toBe(2);
    // What it has come to it need not make room for again.
    expect(rows.makeRoom(batch(4, 4))).toBe(true);
    expect(pool.used.memory).toBe(2);
  });

  test('a row is in use while anything of its batches is under way, and gives its memory back when it is not', () => {
    const { rows, row, pool, released } = held(2);
    const [first, second] = [batch(0, 2), batch(2, 2)];
    for (const each of [first, first, second]) rows.enter(each);
    expect(row.uses).toBe(2);
    row.forgotten = true;
    expect([rows.leave(first), rows.leave(first), row.uses]).toEqual([false, true, 1]);
    rows.releaseIfUnused(0);
    expect([released, pool.used.memory]).toEqual([[], 1]);
    expect(rows.leave(second)).toBe(true);
    rows.releaseIfUnused(0);
    expect([released, pool.used.memory, rows.size]).toEqual([[0], 0, 0]);
  });

  test('closing gives back what is left', () => {
    const { rows, pool, released } = held(2);
    rows.enter(batch(0, 2));
    rows.close();
    expect([released, pool.used.memory, rows.size]).toEqual([[0], 0, 0]);
  });
});
