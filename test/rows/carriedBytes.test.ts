import { expect, test } from '@jest/globals';
import { carriedBytes } from '../../src/rows/carriedBytes.js';

test('strings, keys and buffers count, however deep', () => {
  const small = carriedBytes({ a: 1 });
  expect(small).toBeLessThan(100);
  for (const carried of [
    { a: 'x'.repeat(5000) },
    { a: [{ b: ['x'.repeat(5000)] }] },
    { ['x'.repeat(5000)]: 1 },
    ['x'.repeat(5000)],
    { a: new Uint8Array(10_000) },
  ]) {
    expect(carriedBytes(carried)).toBeGreaterThan(small + 9900);
    expect(carriedBytes(carried)).toBeLessThan(small + 11_000);
  }
});

test('whatever it is: what leads to itself, what throws, what has no end', () => {
  const cyclic: Record<string, unknown> = { text: 'x'.repeat(100) };
  cyclic['self'] = cyclic;
  expect(carriedBytes(cyclic)).toBeLessThan(400);
  expect(
    carriedBytes({
      get a(): string {
        throw new Error('no');
      },
    }),
  ).toBeLessThan(100);
  expect(carriedBytes(Array.from({ length: 1e6 }, () => ({})))).toBeLessThan(1e6);
  for (const none of [undefined, null, 7, () => undefined]) expect(carriedBytes(none)).toBeLessThan(100);
});
