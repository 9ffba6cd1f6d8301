import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { DoneRows } from '../../src/jobs/record/DoneRows.js';
import { IdSet, IntegerSet } from '../../src/collections/IdSet.js';

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

describe('IdSet', () => {
  test('tells numbers from strings, keeps fractions apart, and halves of surrogate pairs', () => {
    const ids = new IdSet();
    const different = [
      1,
      '1',
      1.5,
      '1.5',
      '"1.5"',
      -1,
      0,
      1e300,
      '',
      '\ud800',
      '\ud801',
      '\ufffd',
      '\\ud800',
      'x'.repeat(10_000),
    ];
    for (const isNew of [true, false]) expect(different.map((id) => ids.add(id))).toEqual(different.map(() => isNew));
  });

  test('equals a Set', () => {
    const id = fc.oneof(
      fc.nat(50),
      fc.double({ noNaN: true, noDefaultInfinity: true }).filter((value) => !Object.is(value, -0)),
      fc.string({ maxLength: 2, unit: 'binary' }),
    );
    fc.assert(
      fc.property(fc.array(id, { maxLength: 300, size: 'max' }), (list) => {
        const [set, ours] = [new Set<string | number>(), new IdSet()];
        expect(list.filter((value) => ours.add(value) === (set.size === set.add(value).size))).toEqual([]);
      }),
      { numRuns: 50 },
    );
  });

  test('ids take some 20 bytes each, however long they are', () => {
    const ids = new IdSet();
    const before = process.memoryUsage();
    for (let at = 0; at < 200_000; at++) ids.add(`${'a'.repeat(40)}-${at}`);
    const after = process.memoryUsage();
    expect(after.arrayBuffers - before.arrayBuffers).toBeLessThan(200_000 * 36);
    expect([0, 123_456, 199_999].map((at) => ids.add(`${'a'.repeat(40)}-${at}`))).toEqual([false, false, false]);
  });
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
