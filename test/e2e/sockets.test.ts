import { randomBytes } from 'node:crypto';
import { connect as connectNet } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import {
  describePeers,
  Engine,
  InterruptedError,
  PeerError,
  ringIdentity,
  UsageError,
  type EngineOptions,
  type ListenOptions,
  type Row,
  type RowResult,
  type RunOptions,
  type SocketOptions,
} from '../../src/index.js';
import { temporaryFolder } from '../jobs/support/files.js';
import { certificateAuthority } from '../support/certificates.js';
import { Forwarder } from '../support/Forwarder.js';
import { socketRing, type SocketRing } from '../support/socketRing.js';
import { model } from './support.js';

const path = temporaryFolder();
const OPENED = {
  model: model('gemma3-mixed.gguf'),
  batchSize: 2,
  batches: 2,
  tokensPerSquare: 12,
  threads: 2,
} as const;
const LOOPBACK = (): string => '127.0.0.1:0';
/** Peers that have gone are noticed in the time of a test. */
const SOON = { connectSeconds: 20, silenceSeconds: 3, stallSeconds: 20 } as const;
/** Of what takes three seconds at most, and where nobody says how long, thirty. */
const BOUND_MILLISECONDS = 28_000;

const rows: Row[] = Array.from({ length: 14 }, (_, i) => ({
  id: i,
  tokens: Array.from({ length: 1 + ((i * 5) % 37) }, (__, j) => (i * 31 + j * 17 + 3) % 250),
  maxNewTokens: 1 + ((i * 3) % 7),
  ...(i % 3 === 0 && { temperature: 0.8, seed: i, repetitionPenalty: 1.2 }),
}));

let reference: RowResult[] = [];
beforeAll(async () => {
  await using engine = await Engine.open(OPENED);
  for await (const row of engine.generate(rows, { logprobs: 2 })) reference.push(row);
});
afterAll(() => {
  reference = [];
});

async function generated(
  { first, addresses }: Pick<SocketRing, 'first' | 'addresses'>,
  options: SocketOptions = {},
  run: RunOptions = {},
  into: RowResult[] = [],
): Promise<RowResult[]> {
  const peers = await first.connect(addresses, options);
  for await (const row of first.generate(rows, { logprobs: 2, ...run, peers })) into.push(row);
  return into;
}

/** What it ends with, and in how long. */
async function failure(act: () => Promise<unknown>): Promise<{ readonly error: unknown; readonly seconds: number }> {
  const start = performance.now();
  const error = await act().then(
    () => undefined,
    (thrown: unknown) => thrown,
  );
  return { error, seconds: (performance.now() - start) / 1000 };
}

describe('the same bits as one engine', () => {
  test.each([
    ['2 engines over TCP', [2, 2], LOOPBACK],
    ['4 engines over TCP', [1, 1, 1, 1], LOOPBACK],
    ['2 engines over IPv6', [1, 3], () => '[::1]:0'],
    ['4 engines over Unix sockets', [1, 1, 1, 1], (index: number) => `unix:${path(`${index}.sock`)}`],
  ])('%s, run after run', async (_, counts, addressOf) => {
    await using ring = await socketRing(counts, OPENED, addressOf);
    expect(await generated(ring)).toEqual(reference);
    expect(await generated(ring)).toEqual(reference);
  });

  const authority = (): ((member: string) => NonNullable<SocketOptions['tls']>) =>
    certificateAuthority(path('.'), 'ring');
  test.each([
    ['a shared key', () => ({ sharedKey: randomBytes(32) })],
    ['certificates of both sides', () => ({ tls: authority()('one') })],
  ])('with %s', async (_, securityOf: () => SocketOptions) => {
    const security = securityOf();
    await using ring = await socketRing([1, 1, 2], OPENED, LOOPBACK, security);
    expect(await generated(ring, security)).toEqual(reference);
  });

  test('runs that come at once are served one after another', async () => {
    await using ring = await socketRing([2, 2], OPENED, LOOPBACK);
    const all = await Promise.all([generated(ring), generated(ring), generated(ring)]);
    for (const results of all) expect(results).toEqual(reference);
  });

  test('an engine that does not listen yet is waited for', async () => {
    const address = `unix:${path('late.sock')}`;
    await using first = await Engine.open({ ...OPENED, layers: { first: 0, count: 2 } });
    const results = generated({ first, addresses: [address] });
    await using second = await Engine.open({ ...OPENED, layers: { first: 2, count: 2 } });
    await second.listen(address);
    expect(await results).toEqual(reference);
  });
});

describe('hidden states as bfloat16', () => {
  const rounding = { hiddenStates: 'bfloat16' } as const;
  const cut = async (
    counts: readonly number[],
    run: RunOptions = {},
    opened: EngineOptions = OPENED,
  ): Promise<RowResult[]> => {
    await using ring = await socketRing(counts, opened, LOOPBACK, rounding);
    return await generated(ring, rounding, run);
  };

  test('bits are those of the cuts alone: of no schedule, block or company', async () => {
    const results = await cut([2, 2]);
    expect(results.map(({ error }) => error)).toEqual(rows.map(() => undefined));
    expect(results).not.toEqual(reference);
    expect(await cut([2, 2], { microBatches: 1, sharePrefixes: false })).toEqual(results);
    expect(await cut([2, 2], {}, { ...OPENED, batchSize: 5, tokensPerSquare: 31 })).toEqual(results);
    expect(await cut([1, 3])).not.toEqual(results);
    // Rounded where they were rounded before, nothing changes: the middle one is cut where nobody rounds.
    expect(await cut([1, 1, 2])).not.toEqual(results);
  });

  test('answers hardly differ from those of float32', async () => {
    const results = await cut([2, 2]);
    const first = (row: RowResult | undefined): number => row?.logprobs?.[0]?.logprob ?? NaN;
    // A drawn token may be another one where two of them meet.
    const greedy = results.filter(({ index }) => rows[index]?.temperature === undefined);
    expect(greedy.length).toBeGreaterThan(8);
    for (const row of greedy) expect(Math.abs(first(row) - first(reference[row.index]))).toBeLessThan(0.1);
  });

  test.each([
    ['bfloat16', 'float32'],
    ['float32', 'bfloat16'],
  ] as const)('a follower that says %s refuses %s, and serves on', async (there, here) => {
    await using ring = await socketRing([2, 2], OPENED, LOOPBACK, { hiddenStates: there });
    const { error } = await failure(() => ring.first.connect(ring.addresses, { ...SOON, hiddenStates: here }));
    expect(error).toBeInstanceOf(PeerError);
    expect((error as Error).message).toMatch(/hiddenStates: found .*float.*, expected .*float/);
    expect(await generated(ring, { hiddenStates: there })).toHaveLength(rows.length);
  });

  test('what engines of a ring are known by together', async () => {
    await using ring = await socketRing([1, 1, 2], OPENED, LOOPBACK, rounding);
    const peers = await describePeers(ring.addresses);
    expect(ringIdentity(peers)).toEqual({ layers: null });
    expect(ringIdentity(peers, rounding)).toEqual({
      layers: null,
      hiddenStates: { sentAs: 'bfloat16', before: [1, 2] },
    });
    await expect(ring.first.connect(ring.addresses, { hiddenStates: 'float16' as 'bfloat16' })).rejects.toThrow(
      UsageError,
    );
  });
});

test('engines that listen say what they have', async () => {
  await using ring = await socketRing([1, 1, 2], OPENED, LOOPBACK);
  const block = { slots: 2, rowsPerSlot: 2, tokensPerSquare: 12 };
  expect(await describePeers(ring.addresses)).toEqual([
    { address: ring.addresses[0], layers: { first: 1, count: 1, of: 4 }, block },
    { address: ring.addresses[1], layers: { first: 2, count: 2, of: 4 }, block },
  ]);
});

describe('who does not belong', () => {
  const keys = { sharedKey: randomBytes(32) };
  test.each<[string, () => ListenOptions, () => SocketOptions]>([
    ['another key', () => keys, () => ({ sharedKey: randomBytes(32) })],
    ['no key', () => keys, () => ({})],
    ['a key where none is asked for', () => ({}), () => keys],
    [
      'a certificate of another authority',
      () => ({ tls: certificateAuthority(path('.'), 'ours')('one') }),
      () => ({ tls: certificateAuthority(path('.'), 'theirs')('two') }),
    ],
  ])('%s: a PeerError in bounded time, and the next one is served', async (_, listening, connecting) => {
    const given = { ...SOON, ...listening() };
    const refused: Error[] = [];
    await using ring = await socketRing([2, 2], OPENED, LOOPBACK, {
      ...given,
      onRefused: (error) => refused.push(error),
    });
    const { error, seconds } = await failure(() => ring.first.connect(ring.addresses, { ...SOON, ...connecting() }));
    expect(error).toBeInstanceOf(PeerError);
    expect(seconds * 1000).toBeLessThan(BOUND_MILLISECONDS);
    while (refused.length === 0) await sleep(10);
    expect(await generated(ring, given)).toEqual(reference);
  });

  test.each([
    ['another model', { model: model('gemma3') }, /model: found/],
    ['another precision', { precision: 'float32' }, /precision: found "\\"default\\""|precision: found/],
    ['another cache', { compressCache: '8bit' }, /compressCache: found/],
  ] as const)('%s', async (_, other, words) => {
    await using ring = await socketRing([2, 2], OPENED, LOOPBACK);
    await using stranger = await Engine.open({ ...OPENED, ...other, layers: { first: 0, count: 2 } });
    const { error } = await failure(() => stranger.connect(ring.addresses, SOON));
    expect(error).toBeInstanceOf(PeerError);
    expect((error as Error).message).toMatch(words);
  });

  test('engines in another order, too few, too many', async () => {
    await using ring = await socketRing([1, 1, 2], OPENED, LOOPBACK);
    const [second = '', third = ''] = ring.addresses;
    for (const [addresses, words] of [
      [[third, second], /layers 2 to 3 of 4, expected the engine of layer 1/],
      [[second], /route: found 0 engines/],
      [[second, third, third], /route: found 1 engines/],
      [[third], /expected the engine of layer 1/],
    ] as const) {
      const { error } = await failure(() => ring.first.connect(addresses, SOON));
      expect(error).toBeInstanceOf(PeerError);
      expect((error as Error).message).toMatch(words);
    }
    expect(await generated(ring)).toEqual(reference);
  });

  test('while another run is under way: an error in bounded time, and served once that is over', async () => {
    await using ring = await socketRing([2, 2], OPENED, LOOPBACK, SOON);
    const peers = await ring.first.connect(ring.addresses, SOON);
    const { error, seconds } = await failure(() => ring.first.connect(ring.addresses, { connectSeconds: 1 }));
    expect(error).toBeInstanceOf(PeerError);
    expect(seconds * 1000).toBeLessThan(BOUND_MILLISECONDS);
    peers.close();
    expect(await generated(ring)).toEqual(reference);
  });
});

describe('addresses', () => {
  test('beyond this machine nobody listens, or is dialled, without a key or certificates', async () => {
    await using ring = await socketRing([2, 2], OPENED, LOOPBACK);
    const [follower] = ring.followers;
    await expect(follower?.listen('0.0.0.0:0')).rejects.toThrow(UsageError);
    await expect(follower?.listen('[::]:0')).rejects.toThrow(/expected 127.0.0.1/);
    await expect(ring.first.connect(['192.0.2.1:7000'])).rejects.toThrow(UsageError);
    const closing = await Engine.open({ ...OPENED, layers: { first: 1, count: 1 } });
    const listening = closing.listen('127.0.0.1:0');
    await Promise.all([closing.close(), expect(listening).rejects.toThrow('the engine is closed')]);
    const listener = await follower?.listen('0.0.0.0:0', { sharedKey: randomBytes(32) });
    expect(listener?.address).toMatch(/^0\.0\.0\.0:\d+$/);
  });

  test('in use, or of a socket that is left over', async () => {
    await using ring = await socketRing([2, 2], OPENED, (index) => `unix:${path(`used-${index}.sock`)}`);
    const [follower] = ring.followers;
    const [address = ''] = ring.addresses;
    await expect(follower?.listen(address)).rejects.toThrow(/who listens at/);
    await expect(follower?.listen(`unix:${path('.')}`)).rejects.toThrow(/something else/);
    const tcp = await follower?.listen('127.0.0.1:0');
    await expect(follower?.listen(tcp?.address ?? '')).rejects.toThrow(UsageError);
  });

  test('nobody there: an error in the time that was given', async () => {
    await using first = await Engine.open({ ...OPENED, layers: { first: 0, count: 2 } });
    const { error, seconds } = await failure(() =>
      first.connect([`unix:${path('nobody.sock')}`], { connectSeconds: 0.3 }),
    );
    expect(error).toBeInstanceOf(PeerError);
    expect(seconds * 1000).toBeLessThan(BOUND_MILLISECONDS);
    const interrupt = AbortSignal.timeout(100);
    const interrupted = await failure(() => first.connect([`unix:${path('nobody.sock')}`], { signal: interrupt }));
    expect(interrupted.error).toBeInstanceOf(InterruptedError);
  });
});

describe('a peer that fails in the middle of a run', () => {
  /** All links go through forwarders, which can do anything to them. */
  async function throughForwarders(
    counts: readonly number[],
    act: (ring: SocketRing, forwarders: readonly Forwarder[], ended: Promise<Error | undefined>[]) => Promise<void>,
  ): Promise<void> {
    const ended: Promise<Error | undefined>[] = [];
    await using ring = await socketRing(counts, OPENED, LOOPBACK, { ...SOON, onRun: (run) => ended.push(run.ended) });
    const forwarders: Forwarder[] = [];
    try {
      for (const address of ring.addresses) forwarders.push(await Forwarder.open(address));
      await act(ring, forwarders, ended);
    } finally {
      for (const forwarder of forwarders) await forwarder.close();
    }
  }

  test.each([
    ['dies', (forwarder: Forwarder) => forwarder.cut()],
    ['falls silent', (forwarder: Forwarder) => forwarder.hold()],
  ])(
    'it %s: all end with an error in bounded time, what was finished is right, and the next run is served',
    async (_, happens) => {
      await throughForwarders([1, 1, 2], async (ring, forwarders, ended) => {
        const results: RowResult[] = [];
        const { error, seconds } = await failure(async () => {
          const peers = await ring.first.connect(
            forwarders.map(({ address }) => address),
            SOON,
          );
          const run = { logprobs: 2, order: 'completion', peers } as const;
          for await (const row of ring.first.generate(rows, run)) {
            results.push(row);
            if (results.length === 3) forwarders.forEach(happens);
          }
        });
        expect(error).toBeInstanceOf(PeerError);
        expect(seconds * 1000).toBeLessThan(BOUND_MILLISECONDS);
        expect(results.length).toBeGreaterThanOrEqual(3);
        for (const row of results) expect(row).toEqual(reference[row.index]);
        const errors = await Promise.all(ended);
        expect(errors).toHaveLength(2);
        for (const each of errors) expect(each).toBeInstanceOf(PeerError);
        expect(await generated(ring)).toEqual(reference);
      });
    },
  );

  test('bytes are changed on the way: a PeerError, never another result', async () => {
    await throughForwarders([2, 2], async (ring, forwarders) => {
      const [forwarder] = forwarders;
      if (!forwarder) throw new Error('no forwarder');
      for (let at = 300; at < 30_000; at = Math.ceil(at * 1.7)) {
        const results: RowResult[] = [];
        forwarder.change(at);
        const { error } = await failure(() =>
          generated({ first: ring.first, addresses: [forwarder.address] }, SOON, { order: 'completion' }, results),
        );
        for (const row of results) expect(row).toEqual(reference[row.index]);
        if (error === undefined) expect(results).toHaveLength(rows.length);
        else expect(error).toBeInstanceOf(PeerError);
      }
    });
  });

  test('the first engine is interrupted: the others hear of it, and serve on', async () => {
    const ended: Promise<Error | undefined>[] = [];
    await using ring = await socketRing([1, 1, 2], OPENED, LOOPBACK, { onRun: (run) => ended.push(run.ended) });
    const interrupt = new AbortController();
    const results: RowResult[] = [];
    const { error } = await failure(async () => {
      const peers = await ring.first.connect(ring.addresses);
      for await (const row of ring.first.generate(rows, { peers, signal: interrupt.signal })) {
        results.push(row);
        interrupt.abort();
      }
    });
    expect(error).toBeInstanceOf(InterruptedError);
    const errors = await Promise.all(ended);
    expect(errors.map((each) => each instanceof PeerError)).toEqual([true, true]);
    expect(errors[0]?.message).toContain('interrupted');
    expect(await generated(ring)).toEqual(reference);
  });

  test('a consumer that stops ends the ring well', async () => {
    const ended: Promise<Error | undefined>[] = [];
    await using ring = await socketRing([1, 1, 2], OPENED, LOOPBACK, { onRun: (run) => ended.push(run.ended) });
    const peers = await ring.first.connect(ring.addresses);
    for await (const row of ring.first.generate(rows, { peers })) if (row.index === 2) break;
    expect(await Promise.all(ended)).toEqual([undefined, undefined]);
    expect(await generated(ring)).toEqual(reference);
  });

  test('a follower is closed: the first engine ends with what happened there', async () => {
    await using ring = await socketRing([2, 2], OPENED, LOOPBACK);
    const { error, seconds } = await failure(async () => {
      const peers = await ring.first.connect(ring.addresses);
      for await (const row of ring.first.generate(rows, { peers }))
        if (row.index === 1) void ring.followers[0]?.close();
    });
    expect(error).toBeInstanceOf(PeerError);
    expect((error as Error).message).toMatch(/has failed: the run was interrupted/);
    expect(seconds * 1000).toBeLessThan(BOUND_MILLISECONDS);
  });
});

test('strangers who connect and say nothing, or anything, hold nobody up', async () => {
  await using ring = await socketRing([2, 2], OPENED, LOOPBACK, SOON);
  const port = Number(ring.addresses[0]?.split(':')[1]);
  const strangers = Array.from({ length: 20 }, (_, index) => {
    const socket = connectNet({ host: '127.0.0.1', port });
    socket.on('error', () => undefined);
    if (index % 2 === 0) socket.write(randomBytes(1000));
    return socket;
  });
  expect(await generated(ring)).toEqual(reference);
  await Promise.all(
    strangers.map(
      (socket) => new Promise((resolve) => (socket.closed ? resolve(0) : socket.resume().once('close', resolve))),
    ),
  );
});
