import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { DoneRows } from '../../src/jobs/record/DoneRows.js';
import { liveHeapBytes } from '../support/liveHeapBytes.js';
import { IdSet, IntegerSet } from '../../src/collections/IdSet.js';
import { tries } from '../support/tries.js';
import { anyCharacter } from '../support/anyCharacter.js';

/** In typed arrays and on the heap, after a collection. */
const heldBytes = (): number => liveHeapBytes() + process.memoryUsage().arrayBuffers;

describe('IntegerSet', () => {
  const number = fc.oneof(
    { weight: 5, arbitrary: fc.nat(2000) },
    fc.integer({ min: 65_000, max: 67_000 }),
    fc.integer({ min: 2 ** 32 - 3, max: 2 ** 32 + 3 }),
    fc.integer({ min: -40, max: 40 }),
    fc.integer({ min: 2 ** 37 - 3, max: 2 ** 37 + 3 }),
    fc.maxSafeInteger().map((value) => -value),
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
      { numRuns: tries(20, 200) },
    );
  });

  test('a million consecutive ids take little memory', () => {
    const before = heldBytes();
    const set = new IntegerSet();
    for (let at = 1; at <= 1_000_000; at += 1) set.add(at);
    expect(heldBytes() - before).toBeLessThan(2 * 2 ** 20);
    expect(set.add(1_000_000)).toBe(false);
    expect(set.add(1_000_001)).toBe(true);
  });

  test.each<[string, (at: number) => number, number]>([
    ['moments in milliseconds, one after another', (at) => 1_700_000_000_000 + at, 2],
    ['far apart', (at) => 2 ** 40 + at * 1_000_003, 40],
    ['negative', (at) => -(2 ** 33) - at * 65_536, 40],
  ])('a million ids %s take few bytes each', (_, numberOf, most) => {
    const before = heldBytes();
    const set = new IntegerSet();
    let repeated = 0;
    for (let at = 0; at < 1_000_000; at++) if (!set.add(numberOf(at))) repeated++;
    expect(repeated).toBe(0);
    expect((heldBytes() - before) / 1_000_000).toBeLessThan(most);
    expect([0, 543_210, 999_999].map((at) => set.add(numberOf(at)))).toEqual([false, false, false]);
  });

  // Sixteen million take seconds.
  (tries(0, 1) === 1 ? test : test.skip)('there may be more ids than a Set of JavaScript holds', () => {
    const set = new IntegerSet();
    const most = 2 ** 24 + 10;
    for (let at = 0; at < most; at++) set.add(2 ** 41 + at);
    expect([set.add(2 ** 41), set.add(2 ** 41 + most - 1), set.add(2 ** 41 + most)]).toEqual([false, false, true]);
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
      fc.string({ maxLength: 2, unit: anyCharacter }),
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
    const before = heldBytes();
    for (let at = 0; at < 200_000; at++) ids.add(`${'a'.repeat(40)}-${at}`);
    expect(heldBytes() - before).toBeLessThan(200_000 * 44);
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

  test('results take few bytes each, in rows or in samples of one row, and scattered ones not many', () => {
    for (const [placeOf, most] of [
      [(at: number) => [at, undefined], 8],
      [(at: number) => [Math.floor(at / 4), at % 4], 8],
      [(at: number) => [7, at % 65_536], 110],
      [(at: number) => [at * 1_000_003, undefined], 110],
    ] as const) {
      const before = heldBytes();
      const done = new DoneRows();
      for (let at = 0; at < 65_536; at++) {
        const [index = 0, sample] = placeOf(at);
        done.add(index, at, sample);
      }
      expect(done.size).toBe(65_536);
      expect((heldBytes() - before) / 65_536).toBeLessThan(most + 8);
      const [index = 0, sample] = placeOf(40_000);
      expect([
        done.check(index, 40_000, sample),
        done.check(index, 1, sample),
        done.check(index + 1, 1, 65_535),
      ]).toEqual(['done', 'other-id', 'open']);
    }
  });

  test('a number and its string are different ids', () => {
    const done = new DoneRows();
    done.add(0, 7);
    expect(done.check(0, '7')).toBe('other-id');
  });
});
