import { Duplex } from 'node:stream';
import { duplexPair } from '../../../support/duplexPair.js';
import { expect, test } from '@jest/globals';
import type { PeerMessage } from '../../../../src/engine/peers/PeerMessage.js';
import { FrameConnection } from '../../../../src/engine/peers/sockets/FrameConnection.js';
import { messageLimits } from '../../../../src/engine/peers/sockets/messageLimits.js';
import { SocketSink } from '../../../../src/engine/peers/sockets/SocketSink.js';
import { SocketSource } from '../../../../src/engine/peers/sockets/SocketSource.js';
import { PeerError } from '../../../../src/errors/engineErrors.js';

const SHAPE = {
  block: { slots: 2, rowsPerSlot: 2, tokensPerSquare: 16 },
  hiddenSize: 8,
  vocabularySize: 100,
  contextTokens: 128,
};
const LIMITS = messageLimits(SHAPE);
const hidden = (pass: number): PeerMessage => ({
  kind: 'hidden',
  pass,
  slot: 0,
  hidden: Float32Array.from({ length: 8 }, (_, at) => pass + at / 8),
});
const close = (row: number): PeerMessage => ({ kind: 'close', row });

function link(slots = 1): { readonly sink: SocketSink; readonly source: AsyncIterator<PeerMessage> } {
  const [there, here] = duplexPair();
  const silenceSeconds = 30;
  const sink = new SocketSink(
    new FrameConnection(there, 'the receiver', { silenceSeconds }),
    'float32',
    2 ** 20,
    () => undefined,
  );
  const source = new SocketSource(
    new FrameConnection(here, 'the sender', { silenceSeconds }),
    'float32',
    LIMITS,
    slots,
    () => undefined,
  );
  return { sink, source: source[Symbol.asyncIterator]() };
}

const settled = async (promise: Promise<unknown>): Promise<boolean> => {
  let is = false;
  void promise.finally(() => (is = true)).catch(() => undefined);
  await new Promise((resolve) => setTimeout(resolve, 30));
  return is;
};

test('messages arrive once, in order and to the bit; hidden states beyond the credits wait, and what follows behind them', async () => {
  const { sink, source } = link();
  const sent = [hidden(0), close(1), hidden(1), hidden(2), close(2), hidden(3)];
  const taken = sent.map((message) => sink.send(message));
  await Promise.all(taken.slice(0, 3));
  expect(await Promise.all(taken.slice(3).map(settled))).toEqual([false, false, false]);
  for (const message of sent) expect(await source.next()).toEqual({ done: false, value: message });
  await Promise.all(taken);
  sink.close();
  expect(await source.next()).toEqual({ done: true, value: undefined });
});

test('the memory of a partial sum that was added up takes the next one, and of one that was not stays as it is', async () => {
  const [there, here] = duplexPair();
  const times = { silenceSeconds: 30 };
  const sink = new SocketSink(new FrameConnection(there, 'the receiver', times), 'float32', 2 ** 20, () => undefined);
  const limits = messageLimits({ ...SHAPE, layers: { first: 0, count: 2, of: 2, share: 0, shares: 2 } });
  const connection = new FrameConnection(here, 'the sender', times);
  const source = new SocketSource(connection, 'float32', limits, 1, () => undefined);
  const messages = source[Symbol.asyncIterator]();
  const valuesOf = (pass: number): Float32Array => Float32Array.from({ length: 64 }, (_, at) => pass * 64 + at);
  const next = async (pass: number): Promise<Float32Array> => {
    await sink.send({ kind: 'partial', pass, slot: 0, layer: 1, step: 0, values: valuesOf(pass) });
    const { value } = (await messages.next()) as { value: PeerMessage };
    if (value.kind !== 'partial') throw new TypeError(value.kind);
    expect(value.values).toEqual(valuesOf(pass));
    return value.values;
  };
  const kept = await next(0);
  const memories = new Set<ArrayBufferLike>();
  for (let pass = 1; pass < 20; pass++) {
    const values = await next(pass);
    memories.add(values.buffer);
    source.giveBack(values);
  }
  expect(memories.size).toBe(1);
  expect(memories.has(kept.buffer)).toBe(false);
  expect(kept).toEqual(valuesOf(0));
  sink.close();
  await messages.return?.();
});

test('as many batches may be on their way as there are slots, and as few as two', async () => {
  for (const [slots, credits] of [
    [1, 2],
    [5, 5],
  ] as const) {
    const { sink } = link(slots);
    const taken = Array.from({ length: credits + 1 }, (_, pass) => sink.send(hidden(pass)));
    await Promise.all(taken.slice(0, credits));
    expect(await settled(taken[credits] ?? Promise.resolve())).toBe(false);
    sink.close();
    await expect(taken[credits]).rejects.toThrow(PeerError);
  }
});

test('a sender that fails says why; a receiver that goes is noticed', async () => {
  const failing = link();
  failing.sink.close(new Error('the disk broke'));
  await expect(failing.source.next()).rejects.toThrow('the sender has failed: the disk broke');
  const leaving = link();
  await leaving.source.return?.();
  expect(await leaving.source.next()).toEqual({ done: true, value: undefined });
  const sending = async (): Promise<never> => {
    for (let row = 1; ; row++) {
      await leaving.sink.send(close(row));
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
  };
  await expect(sending()).rejects.toThrow(PeerError);
});

test('what a receiver does not take is bounded', async () => {
  let pending: (error: Error) => void = () => undefined;
  const deaf = new Duplex({
    read: () => undefined,
    write: (_chunk, _encoding, done) => (pending = done),
    destroy: (_error, done) => {
      pending(new Error('destroyed'));
      done(null);
    },
  });
  const connection = new FrameConnection(deaf, 'the receiver', { silenceSeconds: 30 });
  const sink = new SocketSink(connection, 'float32', 10_000, () => undefined);
  const sent: Promise<string>[] = [];
  const words = (error: unknown): string => (error instanceof PeerError ? error.message : String(error));
  for (let row = 0; row < 1000; row++) sent.push(sink.send(close(row)).then(() => 'taken', words));
  for (const outcome of await Promise.all(sent))
    expect(outcome).toMatch(/^the receiver: found 10\d{3} bytes that it does not take, expected at most 10000$/);
  expect(deaf.destroyed).toBe(true);
});

test('a connection that falls silent is given up', async () => {
  const [, here] = duplexPair();
  const source = new SocketSource(
    new FrameConnection(here, 'the sender', { silenceSeconds: 1 }),
    'float32',
    LIMITS,
    1,
    () => undefined,
  )[Symbol.asyncIterator]();
  await expect(source.next()).rejects.toThrow('the sender: found nothing said for 1 s, expected a sign of life');
});

test('time in which this process did not run is no silence of the peer', async () => {
  const [there, here] = duplexPair();
  const times = { silenceSeconds: 1 };
  const sender = new FrameConnection(there, 'the receiver', times);
  const receiver = new FrameConnection(here, 'the sender', times);
  await Promise.all([sender.open(), receiver.open()]);
  const frame = receiver.read({ ping: 0, credit: 8 });
  await sender.write('ping');
  // As where a machine has too much to do, or was asleep.
  for (const until = performance.now() + 2000; performance.now() < until;);
  await new Promise((resolve) => setTimeout(resolve, 0));
  await sender.write('credit', [Buffer.from([1])]);
  expect((await frame)?.name).toBe('credit');
  for (const end of [sender, receiver]) end.destroy();
});
