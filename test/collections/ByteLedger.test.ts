import { expect, test } from '@jest/globals';
import fc from 'fast-check';
import { ByteLedger } from '../../src/collections/ByteLedger.js';

test('an account holds what it may, and all together what the ledger has; one entry of each has room in any case', () => {
  const ledger = new ByteLedger(100);
  const [one, other] = [ledger.account(60), ledger.account()];
  expect(one.fits(1000)).toBe(true);
  one.take(50);
  expect([one.fits(10), one.fits(11)]).toEqual([true, false]);
  expect(other.fits(1000)).toBe(true);
  other.take(30);
  expect([one.fits(10), other.fits(20), other.fits(21)]).toEqual([true, true, false]);
  other.close();
  expect([ledger.held, other.held]).toEqual([50, 0]);
});

test('whoever waits looks again when something is given back', async () => {
  const ledger = new ByteLedger(100);
  const account = ledger.account();
  account.take(100);
  let changed = false;
  const waiting = account.changed().then(() => (changed = true));
  account.take(5);
  await Promise.resolve();
  expect(changed).toBe(false);
  account.give(5);
  await waiting;
});

test('what is held is what was taken and not given back', () => {
  fc.assert(
    fc.property(fc.array(fc.tuple(fc.nat(2), fc.integer({ min: -50, max: 50 }))), (moves) => {
      const ledger = new ByteLedger(1000);
      const accounts = [ledger.account(), ledger.account(), ledger.account()];
      for (const [which, bytes] of moves) accounts[which]?.take(bytes);
      const held = accounts.map((account) => account.held);
      expect(ledger.held).toBe(held.reduce((sum, bytes) => sum + bytes, 0));
      for (const account of accounts) account.close();
      expect(ledger.held).toBe(0);
    }),
  );
});
