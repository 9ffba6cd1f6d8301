import { expect, test } from '@jest/globals';
import { heldBytes } from '../../src/rows/heldBytes.js';

const MUCH = 2 ** 30;

test('strings, keys and buffers count, however deep', () => {
  const small = heldBytes({ a: 1 }, MUCH);
  expect(small).toBeLessThan(100);
  for (const carried of [
    { a: 'x'.repeat(5000) },
    { a: [{ b: ['x'.repeat(5000)] }] },
    { ['x'.repeat(5000)]: 1 },
    ['x'.repeat(5000)],
    { a: new Uint8Array(10_000) },
  ]) {
    expect(heldBytes(carried, MUCH)).toBeGreaterThan(small + 9900);
    expect(heldBytes(carried, MUCH)).toBeLessThan(small + 11_000);
  }
});

test('lists count to their end', () => {
  const numbers = { vector: Array.from({ length: 300_000 }, (_, at) => at) };
  expect(heldBytes(numbers, MUCH)).toBeGreaterThan(8 * 300_000);
  const objects = Array.from({ length: 50_000 }, () => ({ a: 1 }));
  expect(heldBytes(objects, MUCH)).toBeGreaterThan(40 * 50_000);
});

test('whatever it is: what leads to itself, what throws, what has no end', () => {
  const cyclic: Record<string, unknown> = { text: 'x'.repeat(100) };
  cyclic['self'] = cyclic;
  expect(heldBytes(cyclic, MUCH)).toBeLessThan(400);
  expect(
    heldBytes(
      {
        get a(): string {
          throw new Error('no');
        },
      },
      MUCH,
    ),
  ).toBeLessThan(100);
  // Nothing is looked at beyond what is asked for.
  let asked = 0;
  const endless = new Proxy([], {
    get: (_, name) => (name === 'length' ? 2 ** 32 - 1 : (asked++, 0)),
  });
  expect(heldBytes(endless, 8000)).toBe(8000);
  expect(asked).toBeLessThan(2000);
  for (const none of [undefined, null, 7, () => undefined]) expect(heldBytes(none, MUCH)).toBeLessThan(100);
});

test('what is left out is not counted', () => {
  const carry = { text: 'x'.repeat(5000) };
  expect(heldBytes({ prompt: 'a', carry }, MUCH, carry)).toBeLessThan(200);
});
