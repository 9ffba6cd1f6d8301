import { expect, test } from '@jest/globals';
import { InFlight } from '../../../src/engine/rows/InFlight.js';

test('makes whoever enters wait at the limit, until somebody leaves', async () => {
  const inFlight = new InFlight(2);
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
  const inFlight = new InFlight(0);
  const first = inFlight.enter();
  inFlight.wake();
  await first;
});
