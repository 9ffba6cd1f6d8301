import { expect, test } from '@jest/globals';
import { PageNumbers } from '../../../src/engine/memory/PageNumbers.js';
import { PagePool } from '../../../src/engine/memory/PagePool.js';

const prompt = (...tokens: number[]): number[] => tokens;

test('pages that rows share get a number each, which does not come again with the page', () => {
  const freed: number[] = [];
  const numbers = new PageNumbers(2);
  const pool = new PagePool(3, 2);
  const run = pool.openRun(undefined, true, (page) => freed.push(numbers.free(page)));
  const open = (tokens: readonly number[]) => {
    const lengths = { promptTokens: tokens.length, positions: tokens.length };
    const pages = run.admission(1).admit(0, lengths, run.expect(lengths, tokens));
    if (!pages) throw new Error('no room');
    const sharing = numbers.sharedBy(pages);
    pages.growTo(tokens.length);
    pages.wrote(tokens.length);
    return { pages, sharing };
  };
  const first = open(prompt(1, 2, 3, 4));
  expect(first.sharing).toEqual({ pages: [], own: [0, 1] });
  const second = open(prompt(1, 2, 3, 5));
  expect(second.sharing).toEqual({ pages: [0], copy: { page: 1, position: 3 }, own: [2] });
  for (const { pages } of [first, second]) pages.release();
  const third = open(prompt(7, 8, 9, 9, 9, 9));
  expect(third.sharing).toEqual({ pages: [], own: [3, 4, 5] });
  expect(freed.sort()).toEqual([0, 1, 2]);
  third.pages.release();
  run.close();
  expect(pool.used.memory).toBe(0);
});

test('a row that shares nothing has nothing to tell', () => {
  const pages = new PagePool(2, 2).openRun().take(0, { promptTokens: 3, positions: 4 });
  if (!pages) throw new Error('no room');
  expect(new PageNumbers(2).sharedBy(pages)).toBeUndefined();
});
