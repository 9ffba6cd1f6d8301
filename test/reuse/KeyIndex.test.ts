import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { KeyIndex } from '../../src/reuse/KeyIndex.js';
import { cpuSeconds } from '../model/support/expectBounded.js';

function keyOf(first: number, second: number): Buffer {
  const key = Buffer.alloc(32);
  key.writeUInt32LE(first >>> 0, 0);
  key.writeUInt32LE(second >>> 0, 4);
  return key;
}

describe('KeyIndex', () => {
  test('knows where each key is, the last that was said', () => {
    const index = new KeyIndex();
    expect(index.get(keyOf(0, 0))).toBeUndefined();
    index.set(keyOf(0, 0), 24);
    index.set(keyOf(0, 1), 2 ** 50);
    expect([index.get(keyOf(0, 0)), index.get(keyOf(0, 1)), index.get(keyOf(1, 0))]).toEqual([24, 2 ** 50, undefined]);
    index.set(keyOf(0, 0), 25);
    index.forget(keyOf(0, 1));
    index.forget(keyOf(7, 7));
    expect([index.get(keyOf(0, 0)), index.get(keyOf(0, 1)), index.size]).toEqual([25, undefined, 2]);
    index.set(keyOf(0, 1), 26);
    expect(index.get(keyOf(0, 1))).toBe(26);
  });

  test('equals a Map', () => {
    // Few keys, so that they come again, and keys that agree in one of their words.
    const word = fc.oneof(fc.nat(15), fc.constantFrom(2 ** 32 - 1, 2 ** 31, 0x9e3779b1), fc.nat(2 ** 32 - 1));
    const step = fc.tuple(
      fc.constantFrom('set', 'set', 'set', 'forget'),
      word,
      word,
      fc.integer({ min: 1, max: 2 ** 53 - 1 }),
    );
    fc.assert(
      fc.property(fc.array(step, { maxLength: 2000, size: 'max' }), (steps) => {
        const [index, map] = [new KeyIndex(), new Map<string, number>()];
        for (const [what, first, second, offset] of steps) {
          const key = keyOf(first, second);
          if (what === 'set') {
            index.set(key, offset);
            map.set(key.toString('hex'), offset);
          } else {
            index.forget(key);
            map.delete(key.toString('hex'));
          }
        }
        expect(
          steps.filter(
            ([, first, second]) => index.get(keyOf(first, second)) !== map.get(keyOf(first, second).toString('hex')),
          ),
        ).toEqual([]);
      }),
      { numRuns: 100 },
    );
  });

  test('a key takes some 20 bytes, and keys that begin alike do not crowd', () => {
    const index = new KeyIndex();
    const start = process.cpuUsage();
    for (let second = 0; second < 200_000; second += 1) index.set(keyOf(42, second), second + 1);
    // In one crowd the last would look at 200,000 places each: minutes.
    expect(cpuSeconds(start)).toBeLessThan(5);
    expect(index.size).toBe(200_000);
    expect(index.bytes / index.size).toBeLessThan(16 / (7 / 8 / 1.5) + 1);
    expect([0, 77_777, 199_999].map((second) => index.get(keyOf(42, second)))).toEqual([1, 77_778, 200_000]);
  });
});
