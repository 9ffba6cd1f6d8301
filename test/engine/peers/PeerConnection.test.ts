import { describe, expect, test } from '@jest/globals';
import type { Task } from '../../../src/engine/grid/Task.js';
import { activationLink, type ActivationSink } from '../../../src/engine/peers/ActivationLink.js';
import { PeerConnection } from '../../../src/engine/peers/PeerConnection.js';
import type { PeerMessage } from '../../../src/engine/peers/PeerMessage.js';
import { PeerError } from '../../../src/errors/engineErrors.js';

const SLOTS = 2;
const batchOf = (pass: number): { pass: number; slot: number; rows: [] } => ({ pass, slot: pass % SLOTS, rows: [] });
const hidden = (pass: number): PeerMessage => ({ kind: 'hidden', ...batchOf(pass), hidden: Float32Array.of(pass) });
const sweep = (...passes: readonly number[]): PeerMessage => ({
  kind: 'sweep',
  batches: passes.map(batchOf),
  interleaved: true,
});
const task = (pass: number): Task => ({ batch: batchOf(pass) }) as unknown as Task;

/** An engine's side of a link, the other end of it, and why the run fails. */
function connected(embeds = false): {
  readonly sink: ActivationSink;
  readonly connection: PeerConnection;
  readonly failure: Promise<Error>;
} {
  const [there, back] = [activationLink({ capacity: 100 }), activationLink()];
  let fail: (error: Error) => void = () => undefined;
  const failure = new Promise<Error>((resolve) => (fail = resolve));
  const grid = { layers: 1, part: { first: embeds ? 0 : 1, of: 2 }, slots: SLOTS };
  const connection = new PeerConnection({ source: there.source, sink: back.sink }, grid, {
    onMessage: () => undefined,
    onEnd: () => undefined,
    onFailure: (error) => fail(error),
  });
  connection.start();
  return { sink: there.sink, connection, failure };
}

async function send(sink: ActivationSink, ...messages: readonly PeerMessage[]): Promise<void> {
  for (const message of messages) await sink.send(message);
}

describe('hidden states', () => {
  test('wait for the device, and it for them', async () => {
    const { sink, connection } = connected();
    const asked = connection.receive(task(0));
    await send(sink, sweep(0, 1), hidden(0), hidden(1));
    expect(await asked).toEqual({ hidden: Float32Array.of(0) });
    expect(await connection.receive(task(1))).toEqual({ hidden: Float32Array.of(1) });
  });

  test.each([
    ['that nobody announced', [sweep(0), hidden(1)]],
    ['of a batch that has had them', [sweep(0), hidden(0), hidden(0)]],
  ])('%s are refused: held for ever, they would stop the reading', async (_, messages) => {
    const { sink, failure } = connected();
    await send(sink, ...messages);
    expect(await failure).toBeInstanceOf(PeerError);
    expect((await failure).message).toMatch(/^hidden states: found those of pass [01], slot [01], expected those of a/);
  });

  test('are not for an engine of the first layers', async () => {
    const { sink, failure } = connected(true);
    await send(sink, hidden(0));
    expect(await failure).toBeInstanceOf(PeerError);
  });

  test('that are waited for are found behind others', async () => {
    const { sink, connection } = connected();
    await send(sink, sweep(0, 1, 2, 3), hidden(1), hidden(2), hidden(3), hidden(0));
    expect(await connection.receive(task(0))).toEqual({ hidden: Float32Array.of(0) });
    for (const pass of [1, 2, 3])
      expect(await connection.receive(task(pass))).toEqual({ hidden: Float32Array.of(pass) });
  });

  test('that are waited for and come behind too many others end the run, and do not stop it', async () => {
    const { sink, connection, failure } = connected();
    void connection.receive(task(0));
    await send(sink, sweep(0, 1, 2, 3, 4, 5, 6), ...[1, 2, 3, 4, 5, 6].map(hidden));
    expect((await failure).message).toMatch(
      /found those of pass 5, slot 1 after 4 batches that are not to be computed/,
    );
  });
});
