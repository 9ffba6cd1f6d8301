import { expect, test } from '@jest/globals';
import { Semaphore } from '../../src/collections/Semaphore.js';

const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

test('is full at its count, or at its weight beyond the least', () => {
  const counted = new Semaphore({ count: 2 });
  counted.take(1e9);
  expect(counted.full).toBe(false);
  counted.take();
  expect(counted.full).toBe(true);
  const weighed = new Semaphore({ count: 10, least: 1, weight: 100 });
  expect(weighed.full).toBe(false);
  weighed.take(500);
  expect(weighed.full).toBe(true);
  weighed.release(500);
  weighed.take(60);
  expect(weighed.full).toBe(false);
  weighed.take(50);
  expect(weighed.full).toBe(true);
});

test('whoever brings a weight waits until there is room for all of it', async () => {
  const semaphore = new Semaphore({ count: Infinity, least: 1, weight: 100 });
  await semaphore.room(500);
  semaphore.take(60);
  semaphore.take(20);
  await semaphore.room(20);
  let through = false;
  void semaphore.room(30).then(() => (through = true));
  await turn();
  expect(through).toBe(false);
  semaphore.release(20);
  await turn();
  expect(through).toBe(true);
});

test('whoever waits goes on when there is room, and when it is opened', async () => {
  const semaphore = new Semaphore({ count: 1 });
  semaphore.take();
  let through = 0;
  const enter = async (): Promise<void> => {
    await semaphore.room();
    through++;
  };
  void enter();
  await turn();
  expect(through).toBe(0);
  semaphore.release();
  await turn();
  expect(through).toBe(1);
  semaphore.take();
  void enter();
  semaphore.open();
  await turn();
  expect([through, semaphore.full]).toEqual([2, false]);
});
