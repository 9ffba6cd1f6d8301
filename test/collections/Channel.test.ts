import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { Channel, Fifo } from '../../src/collections/Channel.js';
import { cancellable } from '../../src/collections/cancellable.js';

interface ChannelLog {
  wanted: number;
  stopped: number;
  readonly taken: number[];
}

function observedChannel(settled?: () => Promise<void>): {
  readonly channel: Channel<number>;
  readonly told: ChannelLog;
} {
  const told: ChannelLog = { wanted: 0, stopped: 0, taken: [] };
  const channel = new Channel<number>({
    wanted: () => told.wanted++,
    stop: () => told.stopped++,
    taken: (value) => told.taken.push(value),
    ...(settled && { settled }),
  });
  return { channel, told };
}

describe('Channel', () => {
  test('whatever the order of pushes and pulls, values come once and in order', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(fc.boolean(), { maxLength: 40 }), async (pushes) => {
        const { channel, told } = observedChannel();
        const pulled: Promise<IteratorResult<number, void>>[] = [];
        let pushed = 0;
        for (const push of pushes) {
          if (push) channel.push(pushed++);
          else pulled.push(channel.next());
        }
        const there = Math.min(pushed, pulled.length);
        expect(told.taken).toEqual([...Array(there).keys()]);
        channel.close();
        const values = (await Promise.all(pulled)).flatMap((step) => (step.done === true ? [] : [step.value]));
        for await (const value of channel) values.push(value);
        expect(values).toEqual([...Array(pushed).keys()]);
        expect(told.stopped).toBe(0);
      }),
    );
  });

  test('return is immediate, gives up what waits, and tells the source once', async () => {
    const { channel, told } = observedChannel();
    const pending = channel.next();
    const ended = channel.return();
    await expect(Promise.all([pending, ended, channel.return()])).resolves.toEqual(
      Array(3).fill({ done: true, value: undefined }),
    );
    channel.push(1);
    channel.fail(new Error('late'));
    await expect(channel.next()).resolves.toEqual({ done: true, value: undefined });
    expect(told).toEqual({ wanted: 1, stopped: 1, taken: [] });
  });

  test('an error comes once, behind the values before it; an abort in their place', async () => {
    const { channel } = observedChannel();
    channel.push(1);
    channel.fail(new Error('torn'));
    await expect(channel.next()).resolves.toEqual({ done: false, value: 1 });
    await expect(channel.next()).rejects.toThrow('torn');
    await expect(channel.next()).resolves.toEqual({ done: true, value: undefined });
    const { channel: other } = observedChannel();
    other.push(1);
    other.abort({ error: new Error('stop') });
    await expect(other.next()).rejects.toThrow('stop');
  });

  test('nobody is told of the end before things have settled', async () => {
    let settle = (): void => undefined;
    const { channel } = observedChannel(() => new Promise((resolve) => (settle = resolve)));
    let ended = false;
    const pending = channel.next().then(() => (ended = true));
    channel.close();
    await new Promise((resolve) => setImmediate(resolve));
    expect(ended).toBe(false);
    settle();
    await pending;
  });
});

test('cancellable: abort ends a value that is awaited with an error, and the input is told', async () => {
  let returned = 0;
  const input = {
    [Symbol.asyncIterator]: () => ({
      next: () => new Promise<never>(() => undefined),
      return: () => {
        returned++;
        return Promise.resolve({ done: true as const, value: undefined });
      },
    }),
  };
  const reader = cancellable(input);
  const pending = reader.next();
  reader.abort({ error: new Error('interrupted') });
  await expect(pending).rejects.toThrow('interrupted');
  await expect(reader.next()).resolves.toEqual({ done: true, value: undefined });
  expect(returned).toBe(1);
});

test('Fifo gives back what it got, in order, however much that was', () => {
  const queue = new Fifo<number>();
  for (let value = 0; value < 5000; value++) queue.push(value);
  for (let value = 0; value < 2500; value++) expect(queue.shift()).toBe(value);
  queue.push(5000);
  expect(queue.length).toBe(2501);
  for (let value = 2500; value <= 5000; value++) expect(queue.shift()).toBe(value);
  queue.push(1);
  queue.clear();
  expect(queue.length).toBe(0);
});

test('what was taken from a queue is not held by it', () => {
  const fifo = new Fifo<object>();
  for (let at = 0; at < 10; at++) fifo.push({ at });
  fifo.shift();
  fifo.shift();
  const held = JSON.stringify(fifo).match(/"at":\d/g);
  expect(held).toHaveLength(8);
});
