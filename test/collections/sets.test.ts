import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { DoneRows } from '../../src/jobs/DoneRows.js';
import { IdSet } from '../../src/collections/IdSet.js';
import { IntegerSet } from '../../src/collections/IntegerSet.js';

describe('IntegerSet', () => {
  const number = fc.oneof(
    { weight: 5, arbitrary: fc.nat(2000) },
    fc.integer({ min: 65_000, max: 67_000 }),
    fc.integer({ min: 2 ** 32 - 3, max: 2 ** 32 + 3 }),
    fc.maxSafeInteger(),
  );

  test('equals a Set', () => {
    fc.assert(
      fc.property(fc.array(number, { maxLength: 2000, size: 'max' }), (numbers) => {
        const set = new Set<number>();
        const ours = new IntegerSet();
        // One expectation a run: hundreds of thousands of them would take longer than all else.
        const wrong = numbers.filter((value) => {
          const isNew = !set.has(value);
          set.add(value);
          return ours.add(value) !== isNew;
        });
        expect([...wrong, ...[...set].filter((value) => ours.add(value))]).toEqual([]);
      }),
      { numRuns: 200 },
    );
  });

  test('a million consecutive ids take little memory', () => {
    const before = process.memoryUsage();
    const set = new IntegerSet();
    for (let at = 1; at <= 1_000_000; at += 1) set.add(at);
    const after = process.memoryUsage();
    expect(after.arrayBuffers - before.arrayBuffers).toBeLessThan(2 ** 20);
    expect(set.add(1_000_000)).toBe(false);
    expect(set.add(1_000_001)).toBe(true);
  });
});

test('IdSet tells numbers from strings, and keeps fractions apart', () => {
  const ids = new IdSet();
  expect([1, '1', 1.5, '1.5', -1, 0, 1e300, ''].map((id) => ids.add(id))).toEqual(Array(8).fill(true));
  expect([1, '1', 1.5, '1.5', -1, 0, 1e300, ''].map((id) => ids.add(id))).toEqual(Array(8).fill(false));
});

describe('DoneRows', () => {
  test('knows each row and whether it had this id', () => {
    const id = fc.oneof(fc.string(), fc.nat());
    fc.assert(
      fc.property(fc.uniqueArray(fc.tuple(fc.nat(5000), id), { selector: ([index]) => index }), id, (rows, other) => {
        const done = new DoneRows();
        for (const [index, own] of rows) expect(done.add(index, own)).toBe(true);
        expect(done.size).toBe(rows.length);
        for (const [index, own] of rows) {
          expect(done.check(index, own)).toBe('done');
          expect(done.check(index, other)).toBe(other === own ? 'done' : 'other-id');
          expect(done.add(index, own)).toBe(false);
        }
        expect(done.check(6000, other)).toBe('open');
      }),
    );
  });

  test('a number and its string are different ids', () => {
    const done = new DoneRows();
    done.add(0, 7);
    expect(done.check(0, '7')).toBe('other-id');
  });
});
