import { expect, test } from '@jest/globals';
import { ByteLedger } from '../../../src/collections/ByteLedger.js';
import { InFlight, type RowHold } from '../../../src/engine/rows/InFlight.js';

/** What a row takes beside what it brings. */
const ROW = 2048;

function inFlight({ rows = 100, bytes = Infinity } = {}): { readonly rows: InFlight; readonly ledger: ByteLedger } {
  const ledger = new ByteLedger(bytes);
  return { rows: new InFlight(rows, ledger.account()), ledger };
}

/** Whether it is through by now. */
async function isThrough(promise: Promise<unknown>): Promise<boolean> {
  let through = false;
  void promise.then(() => (through = true));
  await new Promise((resolve) => setImmediate(resolve));
  return through;
}

test('makes whoever enters wait at the limit, until a result is handed on', async () => {
  const { rows } = inFlight({ rows: 2 });
  rows.expect(0, await rows.enter());
  rows.expect(1, await rows.enter());
  const third = rows.enter();
  expect(await isThrough(third)).toBe(false);
  rows.leave(1);
  await third;
});

test('closing lets a waiting caller go on whatever the count, and gives back what is held', async () => {
  const { rows, ledger } = inFlight({ rows: 1 });
  rows.expect(0, await rows.enter(5000, 300));
  expect(ledger.held).toBe(5300 + ROW);
  const waiting = rows.enter();
  rows.close();
  await waiting;
  rows.leave(0);
  expect(ledger.held).toBe(ROW);
});

test('nobody enters while rows are held back', async () => {
  const { rows } = inFlight();
  rows.hold();
  const first = rows.enter();
  expect(await isThrough(first)).toBe(false);
  rows.letGo();
  await first;
});

test('what rows bring counts until their results are taken; one row is let in whatever it brings', async () => {
  const { rows, ledger } = inFlight({ bytes: 10_000 });
  const large = await rows.enter(1e9);
  expect(ledger.held).toBe(10_000);
  rows.expect(0, large);
  const second = rows.enter(0, 6000);
  expect(await isThrough(second)).toBe(false);
  rows.leave(0);
  const row = await second;
  expect(ledger.held).toBe(6000 + ROW);
  // Its prompt has become tokens; what it carries stays.
  rows.settle(row, 1000);
  expect(ledger.held).toBe(7000 + ROW);
  rows.expect(1, row, 500);
  rows.answered(1, 900);
  expect(ledger.held).toBe(7900 + ROW);
  const third = rows.enter(1000);
  expect(await isThrough(third)).toBe(false);
  rows.leave(1);
  await third;
  expect(ledger.held).toBe(1000 + ROW);
});

test("samples of a row hold it once, until the last one's result is taken", async () => {
  const { rows, ledger } = inFlight({ bytes: 20_000 });
  const row: RowHold = await rows.enter(0, 8000);
  rows.expect(0, row, 100);
  await rows.enterAgain(100);
  rows.expect(1, row, 100);
  expect(ledger.held).toBe(8200 + ROW);
  rows.leave(0);
  expect(ledger.held).toBe(8100 + ROW);
  rows.leave(1);
  expect(ledger.held).toBe(0);
  // One more after all of those before are gone.
  await rows.enterAgain(100);
  rows.expect(2, row, 100);
  expect(ledger.held).toBe(8100 + ROW);
  rows.leave(2);
  expect(ledger.held).toBe(0);
});
