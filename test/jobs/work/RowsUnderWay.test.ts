import { existsSync, readdirSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { expect, test } from '@jest/globals';
import { RowsUnderWay } from '../../../src/jobs/work/RowsUnderWay.js';
import { temporaryFolder } from '../support/files.js';

const path = temporaryFolder();

/** What an attempt whose process ends leaves. */
function ended(name: string, earlier: readonly string[], rows: readonly number[]): string {
  const file = path(name);
  using underWay = RowsUnderWay.begin(file, earlier);
  for (const row of rows) underWay.sends(row);
  return file;
}

test('rows that went with an attempt are suspected; one that had no company is an error', () => {
  using fresh = RowsUnderWay.begin(path('fresh'), [path('none')]);
  expect([fresh.suspected, fresh.sends(7)]).toEqual([0, undefined]);
  const first = ended('first', [], [0, 1, 2, 9]);
  using second = RowsUnderWay.begin(path('second'), [first]);
  expect([second.suspected, second.sends(1), second.sends(9)]).toEqual([10, undefined, undefined]);
  // Ended at the last one, and with another that nobody had suspected.
  using third = RowsUnderWay.begin(path('third'), [first, path('second')]);
  expect(third.suspected).toBe(10);
  expect([third.sends(1), third.sends(9), third.sends(10)]).toEqual([
    undefined,
    expect.objectContaining({ code: 'crash' }),
    undefined,
  ]);
});

test('an attempt that ends in order leaves nothing, and what is no such file says nothing', () => {
  const file = path('cleared');
  const underWay = RowsUnderWay.begin(file, []);
  underWay.sends(3);
  underWay.clear();
  underWay[Symbol.dispose]();
  expect(existsSync(file)).toBe(false);
  expect(readdirSync(dirname(file))).not.toContain('cleared');
  writeFileSync(path('odd'), 'x'.repeat(16));
  writeFileSync(path('short'), 'x');
  using after = RowsUnderWay.begin(path('after'), [path('odd'), path('short'), dirname(file)]);
  expect(after.suspected).toBe(0);
});
