import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import {
  activationLink,
  describePeers,
  Engine,
  PeerError,
  UsageError,
  type ActivationLink,
  type EngineOptions,
  type FollowOptions,
  type Row,
  type RowResult,
  type RunOptions,
  type TraceEvent,
} from '../../src/index.js';
import { defaultPipeline, serialPipeline } from '../../src/api/operators.js';
import { diagonalBlock, rowByRow, zigZagBlock } from '../../src/api/schedules.js';
import { recordsOfTrace, rowsOfTrace, validatePath } from '../../src/api/testing.js';
import { schedules } from '../support/arbitraryRuns.js';
import { dyingAfter, shareRing, type EngineRing } from '../support/engineRing.js';
import { shareSockets } from '../support/socketRing.js';
import { inTurn, tries } from '../support/tries.js';
import { randomPipeline } from '../support/randomPipeline.js';
import { at, blocks, collect, model } from './support.js';

// Prompts of one token to more than a square has, answers of unequal lengths, greedy and sampled, more rows than
// places, beginnings in common.
const rows: Row[] = Array.from({ length: 14 }, (_, i) => ({
  id: i,
  tokens: Array.from({ length: 1 + ((i * 5) % 37) }, (__, j) => (j < 4 ? 7 + j : (i * 31 + j * 17 + 3) % 250)),
  maxNewTokens: 1 + ((i * 3) % 7),
  ...(i % 3 === 0 && { temperature: 0.8, seed: i, repetitionPenalty: 1.2 }),
}));
const greedy = rows.map(({ temperature: _, ...row }) => row);
let disk: string;
beforeAll(() => {
  disk = mkdtempSync(join(tmpdir(), 'spillway-shares-'));
});
afterAll(() => {
  rmSync(disk, { recursive: true });
});

const OPENED = { batchSize: 2, batches: 2, tokensPerSquare: 12, threads: 1 } as const;

interface RunInRing extends RunOptions {
  readonly rows?: readonly Row[];
  readonly follow?: FollowOptions;
  readonly wrap?: (link: ActivationLink, from: number) => ActivationLink;
}

async function whole(options: EngineOptions, given: readonly Row[] = rows): Promise<RowResult[]> {
  await using engine = await Engine.open({ ...OPENED, disk, ...options });
  return await collect(engine.generate(given, { logprobs: 2 }));
}

async function run(
  ring: EngineRing,
  { rows: given = rows, follow, wrap, ...options }: RunInRing = {},
): Promise<RowResult[]> {
  const peers = ring.connect(wrap);
  const following = ring.engines.map((engine, index) =>
    index === 0 ? Promise.resolve() : engine.follow(at(peers, index), follow),
  );
  const results = collect(at(ring.engines, 0).generate(given, { logprobs: 2, ...options, peers: at(peers, 0) }));
  const ended = await Promise.allSettled([results, ...following]);
  for (const end of ended) if (end.status === 'rejected') throw end.reason;
  return await results;
}

async function shared(of: number, options: EngineOptions, how: RunInRing = {}): Promise<RowResult[]> {
  await using ring = await shareRing(of, { ...OPENED, disk, ...options });
  return await run(ring, how);
}

/** The same tokens, and log-probabilities to four decimals. */
function expectAlike(found: readonly RowResult[], expected: readonly RowResult[]): void {
  expect(found.map(({ tokens }) => tokens)).toEqual(expected.map(({ tokens }) => tokens));
  const flat = (results: readonly RowResult[]): number[] =>
    results.flatMap(({ logprobs = [] }) =>
      logprobs.flatMap(({ logprob, top }) => [logprob, ...top.map((each) => each.logprob)]),
    );
  const [ours, theirs] = [flat(found), flat(expected)];
  expect(ours.length).toBe(theirs.length);
  expect(ours.length).toBeGreaterThan(0);
  expect(Math.max(...ours.map((each, i) => Math.abs(each - (theirs[i] ?? NaN))))).toBeLessThan(1e-4);
}

/** By day each with one of the numbers of engines. */
const MODELS = [
  ['llama', [2, 3, 4]],
  ['llama-tied-biased', [2, 4]],
  ['llama-mlp-biased', [2]],
  ['qwen2', [2]],
  ['qwen3', [2]],
  ['phi3', [2]],
  ['mixtral', [2]],
  ['qwen3-moe', [2]],
  ['gpt-oss', [2, 3]],
  ['gemma2', [2]],
  ['gemma3', [2]],
  ['falcon-multi-query', [2, 3, 4]],
  ['opt-pre', [2, 4]],
  ['opt-post-projected', [2, 4]],
  ['gpt-neox', [2]],
  ['falcon-new', [2]],
  ['falcon-rw', [2, 3, 4, 5]],
] as const;
const CHOSEN = MODELS.map(([name, numbers], nth) => [name, inTurn<number>(numbers, nth)] as const);
describe.each(CHOSEN)('%s', (name, numbers) => {
  test.each(numbers.map((of) => [of] as const))('%i engines with a share of each layer answer as one', async (of) => {
    const options: EngineOptions = { model: model(name), precision: 'float32' };
    const one = await whole(options, greedy);
    expect(one.every(({ error }) => error === undefined)).toBe(true);
    expectAlike(await shared(of, options, { rows: greedy }), one);
  });
});

describe('a share of each layer', () => {
  const name = model('llama-Q8_0.gguf');
  const options: EngineOptions = { model: name };
  let reference: RowResult[];
  beforeAll(async () => {
    reference = await shared(2, options);
    expect(reference.every(({ error }) => error === undefined)).toBe(true);
  });

  test.each([rowByRow(), zigZagBlock(), diagonalBlock()].map((schedule) => [schedule.name, schedule] as const))(
    'gives the same bits under schedule %s, whatever overlaps',
    async (_, schedule) => {
      await using ring = await shareRing(2, { ...OPENED, disk, ...options });
      for (const pipeline of [defaultPipeline, serialPipeline])
        expect(await run(ring, { schedule, pipeline, follow: { pipeline } })).toEqual(reference);
    },
  );

  test('gives the same bits whatever the company, the block, the schedule and the pipelines', async () => {
    await fc.assert(
      fc.asyncProperty(
        blocks,
        schedules,
        fc.uniqueArray(fc.nat(rows.length - 1), { minLength: 1 }),
        fc.nat(),
        fc.boolean(),
        async (block, schedule, chosen, seed, sharePrefixes) => {
          const pipeline = randomPipeline(seed, { weights: seed % 3, cache: seed % 2, activations: seed % 4 });
          const results = await shared(
            2,
            { ...options, ...block },
            { rows: chosen.map((i) => at(rows, i)), schedule, sharePrefixes, follow: { pipeline } },
          );
          expect(results).toEqual(chosen.map((i, index) => ({ ...at(reference, i), index })));
        },
      ),
      { numRuns: tries(4, 15) },
    );
  });

  test.each([
    ['weights streamed from disk', { weights: { cpu: 0, disk: 1 } }],
    ['weights in part', { weights: { cpu: 0.4, disk: 0.6 } }],
    ['cache on disk', { cache: { cpu: 0.3, disk: 0.7 } }],
    ['hidden states on disk', { activations: { cpu: 0.5, disk: 0.5 } }],
  ] as const)('gives the same bits with %s', async (_, placed) => {
    const deep = model('gemma2');
    expect(await shared(2, { model: deep, ...placed })).toEqual(await shared(2, { model: deep }));
  });

  test('takes a valid path on each engine, and sends what the closed form says', async () => {
    for (const [file, of, sums] of [
      ['llama-Q8_0.gguf', 2, 2],
      ['opt-pre', 4, 2],
      ['falcon-new', 2, 1],
      ['llama', 3, 2],
      ['falcon-multi-query', 4, 1],
    ] as const) {
      const traces: TraceEvent[][] = Array.from({ length: of }, () => []);
      await using ring = await shareRing(of, { ...OPENED, disk, model: model(file) });
      const peers = ring.connect();
      const trace = (index: number): { readonly onTrace: (event: TraceEvent) => void } => ({
        onTrace: (event) => void at(traces, index).push(event),
      });
      const following = ring.engines
        .map((engine, index) => ({ engine, index }))
        .slice(1)
        .map(({ engine, index }) => engine.follow(at(peers, index), trace(index)));
      await collect(at(ring.engines, 0).generate(rows, { peers: at(peers, 0), ...trace(0) }));
      await Promise.all(following);
      const { layers, hiddenSize } = at(ring.engines, 0).source.decoder;
      let allSums = 0;
      traces.forEach((events, index) => {
        const admitted = rowsOfTrace(events);
        const grid = { layers, share: { index, of, sums }, slots: 2, rowsPerSlot: 2, tokensPerSquare: 12 };
        validatePath(grid, admitted, recordsOfTrace(events, admitted).records);
        const sent = (task: string): number =>
          events
            .filter(({ name: each }) => each.startsWith(`${task} `))
            .reduce((sum, { args }) => sum + Number(args['bytes']), 0);
        // Of every token that was computed, whether or not its row had ended.
        const tokens = events
          .filter(({ args }) => args['part'] === 'project' && args['layer'] === 0)
          .flatMap(({ args }) => args['rows'] as readonly (readonly number[])[])
          .reduce((sum, [, , count = 0]) => sum + count, 0);
        expect(tokens).toBeGreaterThan(rows.length);
        // Pope et al., appendix A.1: an all-reduce sends 2 (n - 1) / n of what is summed, in whole columns.
        const each = (2 * (of - 1)) / of;
        const columns = sent('all_reduce') / (sums * layers * tokens * 4);
        expect(Math.abs(columns - each * hiddenSize)).toBeLessThan(hiddenSize % of === 0 ? 1e-9 : 2);
        allSums += columns;
        expect(sent('broadcast')).toBe(index === 0 ? tokens * hiddenSize * 4 : 0);
      });
      expect(allSums).toBeCloseTo(2 * (of - 1) * hiddenSize, 6);
    }
  });

  test('scores completions and makes embeddings as one engine does', async () => {
    const opened: EngineOptions = { ...OPENED, disk, model: model('qwen2'), precision: 'float32' };
    const asked = [
      { tokens: [5, 6, 7], completions: [[8], [9, 10, 11]] },
      { tokens: Array.from({ length: 30 }, (_, at) => 3 + at * 5), completions: [[1, 2], [3]] },
    ];
    const numbersOf = async (engine: Engine, peers: () => Pick<RunOptions, 'peers'>): Promise<number[]> => {
      const numbers: number[] = [];
      for await (const { scores = [] } of engine.score(asked, peers()))
        numbers.push(...scores.map(({ logprob }) => logprob));
      for await (const { embedding } of engine.embed(asked, { pooling: 'mean', ...peers() }))
        if (typeof embedding === 'object') numbers.push(...embedding);
      return numbers;
    };
    await using one = await Engine.open(opened);
    const expected = await numbersOf(one, () => ({}));
    await using ring = await shareRing(2, opened);
    const following: Promise<void>[] = [];
    const found = await numbersOf(at(ring.engines, 0), () => {
      const peers = ring.connect();
      following.push(at(ring.engines, 1).follow(at(peers, 1)));
      return { peers: at(peers, 0) };
    });
    await Promise.all(following);
    expect(following).toHaveLength(2);
    expect(found.length).toBe(4 + 2 * 64);
    expect(found).toHaveLength(expected.length);
    expect(Math.max(...found.map((each, i) => Math.abs(each - (expected[i] ?? NaN))))).toBeLessThan(1e-4);
  });

  test('says in its identity how many there are', async () => {
    await using ring = await shareRing(2, { ...OPENED, disk, ...options });
    const [first, second] = ring.engines;
    expect(first?.resultIdentity).toEqual(second?.resultIdentity);
    expect(first?.resultIdentity).toMatchObject({ layers: null, shares: 2 });
    expect(await Engine.check({ ...options, tensorParallel: { index: 0, of: 2 } })).toMatchObject({ shares: 2 });
    expect(await Engine.check(options)).not.toHaveProperty('shares');
  });
});

describe('what does not fit', () => {
  const options = { ...OPENED, model: model('llama-tied-biased') } as const;

  test.each([
    [{ tensorParallel: { index: 2, of: 2 } }, /tensorParallel: found {"index":2,"of":2}, expected index and of/],
    [{ tensorParallel: { index: 0, of: 1 } }, /tensorParallel.of: found 1/],
    [
      { tensorParallel: { index: 0, of: 2 }, layers: { first: 0, count: 1 } },
      /tensorParallel: found one beside layers/,
    ],
    [{ tensorParallel: { index: 0, of: 2 }, gpuMemory: '1GiB' }, /tensorParallel: found one beside gpuMemory/],
    [{ tensorParallel: { index: 0, of: 5 } }, /found 5, expected a number into which the model's 4 heads of 16/],
  ] as const)('%j is refused', async (given, message) => {
    await expect(Engine.open({ ...options, ...given })).rejects.toThrow(UsageError);
    await expect(Engine.open({ ...options, ...given })).rejects.toThrow(message);
  });

  test('rows come in at the first share, beside peers', async () => {
    await using ring = await shareRing(2, { ...options, disk });
    const [first, second] = ring.engines;
    expect(() => first?.generate(rows)).toThrow(/a share of each layer only/);
    expect(() => second?.generate(rows, { peers: at(ring.connect(), 1) })).toThrow(/found an engine of share 1/);
    expect(() => first?.generate(rows, { peers: at(ring.connect(), 0), microBatches: 2 })).toThrow(
      /microBatches: found 2/,
    );
    await expect(first?.follow(at(ring.connect(), 0))).rejects.toThrow(/found the engine of share 0/);
  });

  test.each([
    ['the same share twice', (i: number) => ({ index: i === 2 ? 1 : i, of: 4 }), 4, /next share: found 2, expected 1/],
    [
      'another number of shares',
      (i: number) => ({ index: i, of: i === 1 ? 4 : 2 }),
      2,
      /tensorParallel.of: found 2, expected 4/,
    ],
    [
      'too few of them',
      (i: number) => ({ index: i, of: 4 }),
      2,
      /found engines of the first 2 shares, expected those of all 4/,
    ],
  ])('%s: all end with an error', async (_, place, engines, message) => {
    const opened: Engine[] = [];
    try {
      for (let i = 0; i < engines; i++) opened.push(await Engine.open({ ...options, disk, tensorParallel: place(i) }));
      const links = opened.map(() => activationLink());
      const ends = await Promise.allSettled(
        opened.map((engine, i) => {
          const peers = { sink: at(links, i).sink, source: at(links, (i + engines - 1) % engines).source };
          return i === 0 ? collect(engine.generate(rows, { peers })) : engine.follow(peers);
        }),
      );
      const errors = ends.map((end) => (end.status === 'rejected' ? (end.reason as Error) : undefined));
      for (const error of errors) expect(error).toBeInstanceOf(PeerError);
      expect(errors.map((error) => error?.message).join('; ')).toMatch(message);
    } finally {
      for (const engine of opened) await engine.close();
    }
  });

  test('another model: both end with an error', async () => {
    await using ring = await shareRing(2, (index) => ({
      ...options,
      disk,
      model: model(index === 0 ? 'llama-tied-biased' : 'opt-pre'),
    }));
    await expect(run(ring)).rejects.toThrow(/model family: found "llama", expected "opt"/);
  });

  test('an engine of the layers beside one of a share of them: both end with an error', async () => {
    await using first = await Engine.open({ ...options, disk, layers: { first: 0, count: 1 } });
    await using second = await Engine.open({ ...options, disk, tensorParallel: { index: 1, of: 2 } });
    const [there, back] = [activationLink(), activationLink()];
    const ends = await Promise.allSettled([
      collect(first.generate(rows, { peers: { sink: there.sink, source: back.source } })),
      second.follow({ sink: back.sink, source: there.source }),
    ]);
    for (const end of ends) expect(end).toMatchObject({ status: 'rejected', reason: expect.any(PeerError) });
  });

  test.each([0, 1, 2, 7, 40].filter((_, nth) => nth % tries(2, 1) === 0))(
    'a peer that dies after %i messages ends the run, and the engines go on',
    async (messages) => {
      await using ring = await shareRing(2, { ...options, disk });
      for (const dying of [0, 1]) {
        const broken = run(ring, { wrap: dyingAfter(messages, dying) });
        await expect(broken).rejects.toThrow();
      }
      expect((await run(ring)).every(({ error }) => error === undefined)).toBe(true);
    },
  );

  test('sums of something else end the run', async () => {
    await using ring = await shareRing(2, { ...options, disk });
    const wrong = run(ring, {
      wrap: ({ sink, source }, from) => ({
        source,
        sink: {
          send: (message) =>
            sink.send(from === 1 && message.kind === 'partial' ? { ...message, values: new Float32Array(3) } : message),
          close: (error) => {
            sink.close(error);
          },
        },
      }),
    });
    await expect(wrong).rejects.toThrow(/partial: found 3 numbers of pass 0/);
  });
});

describe('a share of each layer over sockets', () => {
  const options: EngineOptions = { ...OPENED, model: model('llama-tied-biased') };
  const addressOf = (index: number): string => `unix:${join(disk, `share-${index}.sock`)}`;

  test.each([2, 4])('%i engines give the bits that they give within a process, run after run', async (of) => {
    const within = await shared(of, options);
    await using ring = await shareSockets(of, { ...options, disk }, addressOf);
    for (let runs = 0; runs < 2; runs++) {
      const peers = await ring.first.connect(ring.addresses);
      expect(await collect(ring.first.generate(rows, { logprobs: 2, peers }))).toEqual(within);
    }
    const described = await describePeers(ring.addresses);
    expect(described.map(({ layers }) => layers)).toEqual(
      ring.addresses.map((_, index) => ({ first: 0, count: 2, of: 2, share: index + 1, shares: of })),
    );
  });

  test('who does not fit is told so before a run begins', async () => {
    await using ring = await shareSockets(4, { ...options, disk }, addressOf);
    const [first, second, third] = ring.addresses;
    const connect = (...addresses: (string | undefined)[]): Promise<unknown> =>
      ring.first.connect(addresses.flatMap((each) => each ?? []));
    await expect(connect(second, first, third)).rejects.toThrow(
      /found share 2 of 4, expected the engine of share 1 of 4/,
    );
    await expect(connect(first, second)).rejects.toThrow(PeerError);
    await using other = await Engine.open({ ...options, disk, tensorParallel: { index: 0, of: 2 } });
    await expect(other.connect([first ?? ''])).rejects.toThrow(/shares: found 4, expected 2/);
    await using layers = await Engine.open({ ...options, disk, layers: { first: 0, count: 1 } });
    await expect(layers.connect([first ?? ''])).rejects.toThrow(/shares: found 4, expected nothing/);
    await expect(ring.first.connect([first ?? ''], { hiddenStates: 'bfloat16' })).rejects.toThrow(
      /hiddenStates: found bfloat16 beside tensorParallel/,
    );
  });

  test('an engine that closes in mid-run ends the run with an error', async () => {
    await using ring = await shareSockets(2, { ...options, disk }, addressOf);
    const peers = await ring.first.connect(ring.addresses);
    const many = Array.from({ length: 400 }, (_, id) => ({ id, tokens: [3, id % 200], maxNewTokens: 40 }));
    let seen = 0;
    const running = (async (): Promise<unknown> => {
      try {
        for await (const row of ring.first.generate(many, { peers })) if (row.error === undefined) seen++;
        return undefined;
      } catch (error) {
        return error;
      }
    })();
    while (seen === 0) await new Promise((resolve) => setTimeout(resolve, 5));
    await ring.followers[0]?.close();
    expect(await running).toBeInstanceOf(PeerError);
    expect(seen).toBeLessThan(many.length);
  });
});
