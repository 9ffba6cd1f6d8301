import { expect, test } from '@jest/globals';
import { carriedBytes, InFlight } from '../../../src/engine/rows/InFlight.js';

test('makes whoever enters wait at the limit, until somebody leaves', async () => {
  const inFlight = new InFlight({ rows: 2 });
  await inFlight.enter();
  await inFlight.enter();
  let entered = false;
  const third = inFlight.enter().then(() => (entered = true));
  await new Promise((resolve) => setImmediate(resolve));
  expect(entered).toBe(false);
  inFlight.leave();
  await third;
  expect(entered).toBe(true);
});

test('waking lets a waiting caller go on whatever the count', async () => {
  const inFlight = new InFlight({ rows: 0 });
  const first = inFlight.enter();
  inFlight.wake();
  await first;
});

test('what rows carry counts beyond the rows that are generated at once, until their results are taken', async () => {
  const inFlight = new InFlight({ rows: 10, leastRows: 2, carriedBytes: 1000 });
  const carried = ['a', 'b', 'c'].map((letter) => ({ text: letter.repeat(600) }));
  await inFlight.enter(carried[0]);
  // The second of two, whatever the first one carries.
  await inFlight.enter(carried[1]);
  let entered = false;
  const third = inFlight.enter(carried[2]).then(() => (entered = true));
  await new Promise((resolve) => setImmediate(resolve));
  expect(entered).toBe(false);
  inFlight.leave(carried[0]);
  await third;
  // A row's samples carry one object; each counts.
  inFlight.leave(carried[1]);
  inFlight.leave(carried[2]);
  const own = { text: 'x'.repeat(400) };
  await inFlight.enter(own);
  await inFlight.enter(own);
  const other = inFlight.enter({}).then(() => (entered = false));
  await new Promise((resolve) => setImmediate(resolve));
  expect(entered).toBe(true);
  inFlight.leave(own);
  await other;
});

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
