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
  SpillwayError,
  UsageError,
  type ActivationLink,
  type EngineOptions,
  type FollowOptions,
  type PeerMessage,
  type Row,
  type RowResult,
  type RunOptions,
  type TraceEvent,
} from '../../src/index.js';
import { defaultPipeline, serialPipeline } from '../../src/api/operators.js';
import { diagonalBlock, rowByRow, zigZagBlock } from '../../src/api/schedules.js';
import { recordsOfTrace, rowsOfTrace, validatePath } from '../../src/api/testing.js';
import { NO_PAGES } from '../../src/engine/grid/pageCounts.js';
import type { PagePool } from '../../src/engine/memory/PagePool.js';
import { changes, followChanged } from '../support/changedMessages.js';
import { dyingAfter, shareRing, type EngineRing } from '../support/engineRing.js';
import { shareSockets } from '../support/socketRing.js';
import { crossed, inTurn, tries } from '../support/tries.js';
import { at, collect, model } from './support.js';

// Prompts of one token to several squares' and pages', answers of unequal lengths, more rows than places.
const rows: Row[] = Array.from({ length: 13 }, (_, i) => ({
  id: i,
  tokens: Array.from({ length: 1 + ((i * 11) % 47) }, (__, j) => (i * 31 + j * 17 + 3) % 250),
  maxNewTokens: 1 + ((i * 3) % 7),
  ...(i % 3 === 0 && { temperature: 0.8, seed: i, repetitionPenalty: 1.2 }),
}));
let disk: string;
beforeAll(() => {
  disk = mkdtempSync(join(tmpdir(), 'spillway-rows-'));
});
afterAll(() => {
  rmSync(disk, { recursive: true });
});

const OPENED = { batchSize: 4, batches: 2, tokensPerSquare: 12, threads: 1 } as const;

interface RunInRing extends RunOptions {
  readonly rows?: readonly Row[];
  readonly follow?: FollowOptions;
  readonly wrap?: (link: ActivationLink, from: number) => ActivationLink;
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

async function shared(
  of: number,
  attention: 'heads' | 'rows',
  options: EngineOptions,
  how: RunInRing = {},
): Promise<RowResult[]> {
  await using ring = await shareRing(of, { ...OPENED, disk, ...options }, attention);
  return await run(ring, how);
}

/** By day each with one of the numbers of engines. */
const MODELS = [
  // One head of keys and values; as many as engines and fewer; sliding windows; sinks; slopes of heads; norms of heads.
  ['falcon-multi-query', [2, 3, 4]],
  ['llama', [2, 3, 4]],
  ['llama-Q8_0.gguf', [2]],
  ['gemma2', [2]],
  ['gpt-oss', [2, 3]],
  ['falcon-rw', [2, 3, 4, 5]],
  ['qwen3', [2]],
  ['mixtral', [2]],
  ['gpt-neox', [2]],
  ['opt-post-projected', [4]],
] as const;
const CHOSEN = MODELS.map(([name, numbers], nth) => [name, inTurn<number>(numbers, nth)] as const);
describe.each(CHOSEN)('%s', (name, numbers) => {
  test.each(numbers.map((of) => [of] as const))(
    '%i engines that keep some rows each give the bits of those that keep heads',
    async (of) => {
      const options = { model: model(name) };
      const expected = await shared(of, 'heads', options);
      expect(expected.every(({ error }) => error === undefined)).toBe(true);
      expect(await shared(of, 'rows', options)).toEqual(expected);
    },
  );
});

describe('attention by rows', () => {
  const options: EngineOptions = { model: model('llama-Q8_0.gguf') };

  test('gives the same bits under each schedule, whatever overlaps, and whatever the company', async () => {
    const reference = await shared(2, 'heads', options);
    await using ring = await shareRing(2, { ...OPENED, disk, ...options }, 'rows');
    const schedules = [rowByRow(), zigZagBlock(), diagonalBlock()];
    for (const [schedule, pipeline] of crossed(schedules, [defaultPipeline, serialPipeline]))
      expect(await run(ring, { schedule, pipeline, follow: { pipeline } })).toEqual(reference);
    for (const chosen of [[4], [11, 2, 7]])
      expect(await run(ring, { rows: chosen.map((i) => at(rows, i)) })).toEqual(
        chosen.map((i, index) => ({ ...at(reference, i), index })),
      );
  });

  test.each([
    ['weights streamed from disk', { weights: { cpu: 0, disk: 1 } }],
    ['hidden states on disk', { activations: { cpu: 0.5, disk: 0.5 } }],
    ['a compressed cache', { compressCache: '4bit' }],
    ['sparse attention', { sparseAttention: 0.3 }],
    ['evicted keys', { kvEviction: 'sinks:4,window:32' }],
    ['weights as integers', { weightsLayout: 'int8' }],
  ] as const)('gives the same bits with %s', async (_, more) => {
    const deep = { model: model('qwen3'), ...more };
    expect(await shared(2, 'rows', deep)).toEqual(await shared(2, 'heads', deep));
  });

  test('takes a valid path on each engine, and sends what the closed form says', async () => {
    for (const [file, of, sums] of [
      ['falcon-multi-query', 2, 1],
      ['falcon-multi-query', 4, 1],
      ['llama', 2, 2],
    ] as const) {
      const traces: TraceEvent[][] = Array.from({ length: of }, () => []);
      await using ring = await shareRing(of, { ...OPENED, disk, model: model(file) }, 'rows');
      const peers = ring.connect();
      const trace = (index: number): { readonly onTrace: (event: TraceEvent) => void } => ({
        onTrace: (event) => void at(traces, index).push(event),
      });
      const following = ring.engines
        .slice(1)
        .map((engine, index) => engine.follow(at(peers, index + 1), trace(index + 1)));
      await collect(at(ring.engines, 0).generate(rows, { peers: at(peers, 0), ...trace(0) }));
      await Promise.all(following);
      const { layers, heads, kvHeads, headDim } = at(ring.engines, 0).source.decoder;
      const sent = { all_to_all: 0, all_to_all_back: 0 };
      let tokens = 0;
      traces.forEach((events, index) => {
        const admitted = rowsOfTrace(events);
        const grid = { layers, share: { index, of, sums }, slots: 2, rowsPerSlot: 4, tokensPerSquare: 12 };
        validatePath(grid, admitted, recordsOfTrace(events, admitted).records);
        for (const task of ['all_to_all', 'all_to_all_back'] as const)
          for (const { name, args } of events) if (name.startsWith(`${task} `)) sent[task] += Number(args['bytes']);
        tokens = events
          .filter(({ args }) => args['part'] === 'project' && args['layer'] === 0)
          .flatMap(({ args }) => args['rows'] as readonly (readonly number[])[])
          .reduce((sum, [, , count = 0]) => sum + count, 0);
      });
      expect(tokens).toBeGreaterThan(rows.length);
      // Each engine has 1 / n of a token's queries, and they go 1 to n - 1 links far; of keys and values that engines
      // have together none go.
      const links = (columns: number): number => (tokens * layers * 4 * columns * headDim * (of - 1)) / 2;
      expect(sent.all_to_all).toBeCloseTo(links(heads + (kvHeads === 1 ? 0 : 2 * kvHeads)), 3);
      expect(sent.all_to_all_back).toBeCloseTo(links(heads), 3);
    }
  });

  test('rows of one engine alone: the others compute their share, and attend to nothing', async () => {
    const one = [at(rows, 5)];
    const expected = await shared(4, 'heads', { model: model('falcon-multi-query') }, { rows: one });
    expect(await shared(4, 'rows', { model: model('falcon-multi-query') }, { rows: one })).toEqual(expected);
  });

  test('an engine that nobody listens to any more ends well, and the engines go on', async () => {
    await using ring = await shareRing(3, { ...OPENED, disk, model: model('falcon-multi-query') }, 'rows');
    const expected = await run(ring);
    const peers = ring.connect();
    const following = ring.engines.slice(1).map((engine, index) => engine.follow(at(peers, index + 1)));
    for await (const { error } of at(ring.engines, 0).generate(rows, { peers: at(peers, 0) })) {
      expect(error).toBeUndefined();
      break;
    }
    await Promise.all(following);
    expect(await run(ring)).toEqual(expected);
  });

  test.each([0, 3, 9, 40].filter((_, nth) => nth % tries(2, 1) === 0))(
    'a peer that dies after %i messages ends the run, and the engines go on',
    async (messages) => {
      await using ring = await shareRing(2, { ...OPENED, disk, ...options }, 'rows');
      for (const dying of [0, 1]) {
        const broken = run(ring, { wrap: dyingAfter(messages, dying) });
        await expect(broken).rejects.toThrow();
      }
      expect((await run(ring)).every(({ error }) => error === undefined)).toBe(true);
    },
  );

  test.each([
    ['other columns', { values: new Float32Array(3) }, /partial: found 3 numbers of pass 0/],
    ['another step', { step: 7 }, /partial: found .* step 7, expected/],
    ['another layer', { layer: 9 }, /partial: found .* layer 9, step/],
  ] as const)('%s end the run', async (_, wrong, message) => {
    await using ring = await shareRing(2, { ...OPENED, disk, ...options }, 'rows');
    const broken = run(ring, {
      wrap: ({ sink, source }, from) => ({
        source,
        sink: {
          send: (each) => sink.send(from === 1 && each.kind === 'partial' ? { ...each, ...wrong } : each),
          close: (error) => {
            sink.close(error);
          },
        },
      }),
    });
    await expect(broken).rejects.toThrow(message);
  });

  test.each([
    [5, /open.keeper: found 5, expected one of the 2 engines/],
    [undefined, /open.keeper: found none, expected one of the 2 engines/],
  ])('a row that is kept by engine %s ends the run', async (keeper, message) => {
    await using ring = await shareRing(2, { ...OPENED, disk, ...options }, 'rows');
    const peers = ring.connect(({ sink, source }, from) => ({
      source,
      sink: {
        send: (each) => {
          if (from !== 0 || each.kind !== 'open') return sink.send(each);
          const { keeper: _, ...open } = each;
          return sink.send(keeper === undefined ? open : { ...open, keeper });
        },
        close: (error) => {
          sink.close(error);
        },
      },
    }));
    const ends = await Promise.allSettled([
      collect(at(ring.engines, 0).generate(rows, { peers: at(peers, 0) })),
      at(ring.engines, 1).follow(at(peers, 1)),
    ]);
    const errors = ends.map((end) => (end.status === 'rejected' ? (end.reason as Error) : undefined));
    expect(errors[1]).toBeInstanceOf(PeerError);
    expect(errors[1]?.message).toMatch(message);
  });

  test('whatever the first engine sends: an error of ours or none, and everything is given back', async () => {
    await using ring = await shareRing(2, { ...OPENED, disk, ...options }, 'rows');
    const messages: PeerMessage[] = [];
    const few = rows.slice(0, 5);
    const expected = await run(ring, {
      rows: few,
      wrap: ({ sink, source }, from) => ({
        source,
        sink: {
          send: (message) => {
            if (from === 0) messages.push(structuredClone(message));
            return sink.send(message);
          },
          close: (error) => {
            sink.close(error);
          },
        },
      }),
    });
    expect(messages.some(({ kind }) => kind === 'partial')).toBe(true);
    await fc.assert(
      fc.asyncProperty(fc.array(changes, { minLength: 1, maxLength: 3 }), async (list) => {
        const outcome = await followChanged(at(ring.engines, 1), messages, list);
        if (outcome !== undefined) expect(outcome).toBeInstanceOf(SpillwayError);
      }),
      { numRuns: tries(15, 120) },
    );
    for (const engine of ring.engines) {
      const { pool } = (engine as unknown as { readonly runs: { readonly pool: PagePool } }).runs;
      expect(pool.capacity).toBeGreaterThan(0);
      // As many pages are free as there are, whoever keeps them.
      for (const keeper of [0, 1]) expect(pool.has({ ...NO_PAGES, memory: pool.capacity }, keeper)).toBe(true);
    }
    expect(await run(ring, { rows: few })).toEqual(expected);
  });

  test('goes over sockets, and engines that divide attention otherwise do not fit', async () => {
    const addressOf = (index: number): string => `unix:${join(disk, `rows-${index}.sock`)}`;
    const expected = await shared(2, 'heads', options);
    await using ring = await shareSockets(2, { ...OPENED, disk, ...options }, addressOf, {}, 'rows');
    for (let runs = 0; runs < 2; runs++) {
      const peers = await ring.first.connect(ring.addresses);
      expect(await collect(ring.first.generate(rows, { logprobs: 2, peers }))).toEqual(expected);
    }
    expect((await describePeers(ring.addresses)).map(({ layers }) => layers)).toEqual([
      { first: 0, count: 2, of: 2, share: 1, shares: 2, byRows: true },
    ]);
    await using other = await Engine.open({ ...OPENED, disk, ...options, tensorParallel: { index: 0, of: 2 } });
    await expect(other.connect(ring.addresses)).rejects.toThrow(/found share 1 of 2, attention by rows, expected/);
  });

  test('engines that divide attention otherwise end with an error', async () => {
    await using first = await Engine.open({ ...OPENED, disk, ...options, tensorParallel: { index: 0, of: 2 } });
    await using second = await Engine.open({
      ...OPENED,
      disk,
      ...options,
      tensorParallel: { index: 1, of: 2, attention: 'rows' },
    });
    const ring: EngineRing = {
      engines: [first, second],
      connect: () => {
        const [there, back] = [activationLink(), activationLink()];
        return [
          { sink: there.sink, source: back.source },
          { sink: back.sink, source: there.source },
        ];
      },
      [Symbol.asyncDispose]: () => Promise.resolve(),
    };
    await expect(run(ring)).rejects.toThrow(/tensorParallel.attention: found "heads", expected "rows"/);
  });

  test.each([
    [{ tensorParallel: { index: 0, of: 2, attention: 'columns' as 'rows' } }, /attention: found "columns", expected/],
    [
      { tensorParallel: { index: 0, of: 2, attention: 'rows' as const }, cache: { cpu: 0.5, disk: 0.5 } },
      /tensorParallel.attention: found rows beside a share of the cache on disk, 0.5/,
    ],
  ])('%j is refused', async (given, message) => {
    await expect(Engine.open({ ...OPENED, disk, ...options, ...given })).rejects.toThrow(UsageError);
    await expect(Engine.open({ ...OPENED, disk, ...options, ...given })).rejects.toThrow(message);
  });
});
