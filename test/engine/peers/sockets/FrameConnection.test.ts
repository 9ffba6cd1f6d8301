import { expect, test } from '@jest/globals';
import { setTimeout as sleep } from 'node:timers/promises';
import { FrameConnection } from '../../../../src/engine/peers/sockets/FrameConnection.js';
import { duplexPair } from '../../../support/duplexPair.js';

const TIMES = { silenceSeconds: 30 };
const LIMITS = { ping: 0, credit: 8 };

test('who only says that it is there is waited for since a frame was asked for, and given up when it is overdue', async () => {
  const [there, here] = duplexPair();
  const peer = new FrameConnection(there, 'this side', TIMES);
  const waited: number[] = [];
  const began = new Set<number>();
  const connection = new FrameConnection(here, 'the peer', TIMES, (since) => {
    if (since === undefined) return undefined;
    began.add(since);
    waited.push(performance.now() - since);
    return waited.length === 4 ? 'found no message, expected one' : undefined;
  });
  // Both say that they are there from now on, every 250 ms.
  await Promise.all([peer.open(), connection.open()]);
  await expect(connection.read(LIMITS)).rejects.toThrow('the peer: found no message, expected one');
  expect(waited.toSorted((a, b) => a - b)).toEqual(waited);
  expect([waited.length, began.size]).toEqual([4, 1]);
  peer.destroy();
});

test('a frame ends the wait; nobody waits while nobody reads', async () => {
  const [there, here] = duplexPair();
  const peer = new FrameConnection(there, 'this side', TIMES);
  const seen = new Set<number | undefined>();
  const connection = new FrameConnection(here, 'the peer', TIMES, (since) => {
    seen.add(since);
    return undefined;
  });
  await Promise.all([peer.open(), connection.open()]);
  const read = connection.read(LIMITS);
  while (![...seen].some((since) => since !== undefined)) await sleep(20);
  await peer.write('credit', [Buffer.from([1])]);
  expect((await read)?.name).toBe('credit');
  expect([...seen].filter((since) => since !== undefined)).toHaveLength(1);
  seen.clear();
  while (seen.size === 0) await sleep(20);
  await sleep(300);
  expect([...seen]).toEqual([undefined]);
  connection.destroy();
  peer.destroy();
});
