import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import {
  Engine,
  InterruptedError,
  PeerError,
  type EngineOptions,
  type Row,
  type RowResult,
  type RunOptions,
  type RunStats,
  type PeerMessage,
  type TraceEvent,
} from '../../src/index.js';
import { readModel } from '../../src/api/models.js';
import { diagonalBlock, rowByRow, zigZagBlock } from '../../src/api/schedules.js';
import { recordsOfTrace, rowsOfTrace, validatePath } from '../../src/api/testing.js';
import { schedules } from '../support/arbitraryRuns.js';
import { engineRing, type EngineRing } from '../support/engineRing.js';
import { promptTrees } from '../support/promptTrees.js';
import { blocks, model } from './support.js';

const GEMMA = model('gemma3-mixed.gguf');

/** What came of a run in a ring: results, and what each engine and its link say. */
interface Outcome {
  readonly results: RowResult[];
  readonly stats: RunStats[];
  readonly traces: TraceEvent[][];
  /** What the first engine sends. */
  readonly sent: PeerMessage[];
}

async function generate(ring: EngineRing, rows: readonly Row[], run: RunOptions = {}): Promise<Outcome> {
  const outcome: Outcome = { results: [], stats: [], traces: ring.engines.map(() => []), sent: [] };
  const [front, ...later] = ring.connect((link, from) => {
    if (from > 0) return link;
    const send = (message: PeerMessage): Promise<void> => {
      outcome.sent.push(message);
      return link.sink.send(message);
    };
    return {
      ...link,
      sink: {
        send,
        close: (error) => {
          link.sink.close(error);
        },
      },
    };
  });
  const told = (index: number) => ({
    onStats: (stats: RunStats) => (outcome.stats[index] = stats),
    onTrace: (event: TraceEvent) => outcome.traces[index]?.push(event),
  });
  const [first, ...others] = ring.engines;
  if (!first || !front) throw new Error('a ring of no engines');
  const following = later.map((peers, index) => others[index]?.follow(peers, told(index + 1)));
  const generating = (async () => {
    const options = { logprobs: 1, ignoreEos: true, ...told(0), ...run, peers: front };
    for await (const row of first.generate(rows, options)) outcome.results.push(row);
  })();
  for (const each of await Promise.allSettled([generating, ...following]))
    if (each.status === 'rejected') throw each.reason;
  return outcome;
}

const RINGS: readonly (readonly [string, readonly number[], Partial<EngineOptions>])[] = [
  ['llama-Q4_1.gguf', [1, 1], {}],
  ['gemma3', [1, 3], {}],
  ['gemma3', [2, 1, 1], { weights: { cpu: 0.4, disk: 0.6 } }],
  ['gemma3', [1, 2, 1], { compressCache: '8bit' }],
  ['llama-Q4_1.gguf', [1, 1], { compressCache: '4bit', sparseAttention: 0.3 }],
];

describe.each(RINGS)('%s, %j, %j', (name, counts, more) => {
  test('the same bits with sharing on and off and as on one engine, whatever the tree, the schedule and the chunks', async () => {
    let saved = 0;
    await fc.assert(
      fc.asyncProperty(promptTrees(14), schedules, blocks, async (rows, schedule, block) => {
        const options = { model: model(name), threads: 1, ...block, ...more };
        await using ring = await engineRing(counts, options);
        const shared = await generate(ring, rows, { schedule });
        const apart = await generate(ring, rows, { schedule, sharePrefixes: false });
        expect(shared.results).toEqual(apart.results);
        expect(apart.stats.map(({ sharing }) => sharing.promptTokensSaved)).toEqual(counts.map(() => 0));
        await using whole = await Engine.open(options);
        const alone: RowResult[] = [];
        for await (const row of whole.generate(rows, { logprobs: 1, ignoreEos: true, schedule })) alone.push(row);
        expect(shared.results).toEqual(alone);
        for (const { sharing } of shared.stats) expect(sharing).toEqual(shared.stats[0]?.sharing);
        saved += shared.stats[0]?.sharing.promptTokensSaved ?? 0;
      }),
      { numRuns: 5 },
    );
    expect(saved).toBeGreaterThan(0);
  });
});

describe('rows that begin alike, their layers divided over engines', () => {
  const common = Array.from({ length: 90 }, (_, i) => (i * 17 + 3) % 250);
  // The first row keeps the engines busy until the others are known.
  const rows: readonly Row[] = [
    { id: 'first', tokens: [7], maxNewTokens: 4 },
    ...Array.from({ length: 32 }, (_, id) => ({ id, tokens: [...common, id, id + 1], maxNewTokens: 4 })),
  ];
  const OPENED = { model: GEMMA, batchSize: 16, batches: 2, tokensPerSquare: 256, threads: 1 } as const;
  let ring: EngineRing;
  let counts: readonly number[];
  beforeAll(async () => {
    counts = [1, 1, (await readModel(GEMMA)).decoder.layers - 2];
    ring = await engineRing(counts, OPENED);
  });
  afterAll(async () => {
    await ring[Symbol.asyncDispose]();
  });

  test('each engine computes what they have in common once, keeps one copy of it, says so, and its path is valid', async () => {
    for (const schedule of [zigZagBlock(), diagonalBlock(), rowByRow()]) {
      await using fresh = await engineRing(counts, OPENED);
      const { stats, traces, sent, results } = await generate(fresh, rows, { schedule });
      expect(results.map(({ error }) => error)).toEqual(rows.map(() => undefined));
      expect(stats.map(({ sharing }) => sharing.promptTokensSaved)).toEqual(counts.map(() => 31 * 90));
      const apart = await generate(fresh, rows, { schedule, sharePrefixes: false });
      const peaks = (all: readonly RunStats[]): number[] => all.map(({ memory }) => memory['cpu']?.peakBytes ?? NaN);
      peaks(stats).forEach((peak, index) => {
        expect(peak).toBeLessThan(peaks(apart.stats)[index] ?? NaN);
      });
      const admitted = rowsOfTrace(traces[0] ?? []);
      expect(admitted.filter(({ prefix }) => prefix)).toHaveLength(1);
      let first = 0;
      for (const [index, trace] of traces.entries()) {
        const layers = counts[index] ?? 0;
        const part = { first, of: counts.reduce((sum, count) => sum + count, 0) };
        const grid = { layers, part, slots: 2, rowsPerSlot: 16, tokensPerSquare: 256 };
        const { records } = recordsOfTrace(trace, admitted);
        expect(rowsOfTrace(trace)).toEqual(admitted);
        validatePath(grid, admitted, records);
        // A row that did not take over what it is said to would lack it.
        const alone = admitted.map((row) => ({ ...row, shared: [] }));
        expect(() => {
          validatePath(grid, alone, records);
        }).toThrow('has not been computed');
        first += layers;
      }
      // All that was kept for rows to come has been given back in good order, or at the end.
      const own = sent.reduce(
        (sum, message) => sum + (message.kind === 'open' ? (message.sharing?.own.length ?? 0) : 0),
        0,
      );
      expect(sent.filter(({ kind }) => kind === 'free').length).toBeLessThanOrEqual(own);
    }
  });

  test('a consumer that stops, a signal: all end, and what is left behind is nothing', async () => {
    const expected = (await generate(ring, rows)).results;
    for (let round = 0; round < 8; round++) {
      const stop = new AbortController();
      const running = generate(ring, rows, { signal: stop.signal }).catch((error: unknown) => error);
      await sleep(2 * round);
      stop.abort();
      const outcome = await running;
      if (outcome instanceof Error) expect([InterruptedError, PeerError]).toContain(outcome.constructor);
    }
    expect((await generate(ring, rows)).results).toEqual(expected);
  });

  test('an engine that cannot have pages in several tables: nothing is shared, for any of them', async () => {
    const [front, middle, back] = ring.engines;
    const [toMiddle, toBack, toFront] = ring.connect((link, from) => {
      if (from !== 2) return link;
      const send = (message: PeerMessage): Promise<void> =>
        link.sink.send(message.kind === 'begin' ? { ...message, sharesPages: false } : message);
      return { ...link, sink: { ...link.sink, send } };
    });
    if (!front || !middle || !back || !toMiddle || !toBack || !toFront) throw new Error('a ring of three');
    let stats: RunStats | undefined;
    const following = [middle.follow(toBack), back.follow(toFront)];
    const results: RowResult[] = [];
    const options: RunOptions = { logprobs: 1, ignoreEos: true, peers: toMiddle, onStats: (each) => (stats = each) };
    for await (const row of front.generate(rows, options)) results.push(row);
    await Promise.all(following);
    expect(stats?.sharing.promptTokensSaved).toBe(0);
    expect(results).toEqual((await generate(ring, rows)).results);
  });
});
