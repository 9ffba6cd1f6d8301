import { expect, test } from '@jest/globals';
import { simulatedLink } from '../../../src/engine/execution/simulatedLink.js';
import { VirtualTime } from '../../../src/engine/execution/VirtualTime.js';
import type { PeerMessage } from '../../../src/engine/peers/PeerMessage.js';

const hidden = (pass: number): PeerMessage => ({ kind: 'hidden', pass, slot: 0, hidden: new Float32Array(1) });

test('messages arrive in order, each so much later than it was sent, and the end behind them', async () => {
  const time = new VirtualTime();
  const { sink, source } = simulatedLink(time, { latencySeconds: 3 });
  const arrived: [number, unknown][] = [];
  const reading = (async () => {
    for await (const message of source) arrived.push([time.now, 'pass' in message && message.pass]);
    arrived.push([time.now, 'end']);
  })();
  for (const [at, pass] of [
    [0, 0],
    [1, 1],
    [1, 2],
  ] as const)
    time.at(at, () => void sink.send(hidden(pass)));
  time.at(5, () => {
    sink.close();
  });
  await reading;
  expect(arrived).toEqual([
    [3, 0],
    [4, 1],
    [4, 2],
    [8, 'end'],
  ]);
});

test('a receiver that is full makes the sender wait; one that has gone refuses', async () => {
  const time = new VirtualTime();
  const { sink, source } = simulatedLink(time, { latencySeconds: 1, capacity: 1 });
  await sink.send(hidden(0));
  await sink.send(hidden(1));
  while (!time.idle) await new Promise((resolve) => setImmediate(resolve));
  let sent = false;
  const third = sink.send(hidden(2)).then(() => (sent = true));
  await new Promise((resolve) => setImmediate(resolve));
  expect(sent).toBe(false);
  const reader = source[Symbol.asyncIterator]();
  expect((await reader.next()).value).toMatchObject({ pass: 0 });
  await third;
  await reader.return?.();
  sink.send(hidden(3)).catch(() => undefined);
  while (!time.idle) await new Promise((resolve) => setImmediate(resolve));
  await expect(sink.send(hidden(4))).rejects.toThrow('the receiver of activations has gone');
});

test('a latency that is none is refused', () => {
  expect(() => simulatedLink(new VirtualTime(), { latencySeconds: -1 })).toThrow(/^latencySeconds: found -1/);
});
