import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import {
  describePeers,
  Engine,
  PeerError,
  UsageError,
  type ActivationLink,
  type EngineOptions,
  type PeerMessage,
  type RowResult,
  type RowSettings,
  type RunOptions,
  type TraceEvent,
} from '../../src/index.js';
import { recordsOfTrace, rowsOfTrace, validatePath } from '../../src/api/testing.js';
import { dyingAfter, promptsRing, type EngineRing } from '../support/engineRing.js';
import { promptsSockets } from '../support/socketRing.js';
import { at, blocks, collect, model } from './support.js';

type TokenRow = RowSettings & { readonly tokens: readonly number[] };

// Prompts of one token to several pages, some with a beginning in common, greedy and sampled, more rows than places.
const rows: TokenRow[] = Array.from({ length: 14 }, (_, i) => ({
  id: i,
  tokens: Array.from({ length: 1 + ((i * 23) % 90) }, (__, j) => (j < 8 ? 7 + j : (i * 31 + j * 17 + 3) % 250)),
  maxNewTokens: 1 + ((i * 3) % 7),
  ...(i % 3 === 0 && { temperature: 0.8, seed: i, repetitionPenalty: 1.2 }),
}));
const PAGE_TOKENS = 32;
const OPENED = { batchSize: 2, batches: 2, tokensPerSquare: 24, threads: 1 } as const;
let disk: string;
beforeAll(() => {
  disk = mkdtempSync(join(tmpdir(), 'spillway-prompts-'));
});
afterAll(() => {
  rmSync(disk, { recursive: true });
});

interface RunApart extends RunOptions {
  readonly rows?: readonly TokenRow[];
  readonly wrap?: (link: ActivationLink, from: number) => ActivationLink;
  readonly follow?: { readonly onTrace: (event: TraceEvent) => void };
}

async function run(
  ring: EngineRing,
  { rows: given = rows, wrap, follow, ...options }: RunApart = {},
): Promise<RowResult[]> {
  const peers = ring.connect(wrap);
  const following = at(ring.engines, 1).follow(at(peers, 1), follow);
  const results = collect(at(ring.engines, 0).generate(given, { logprobs: 2, ...options, peers: at(peers, 0) }));
  const ended = await Promise.allSettled([results, following]);
  for (const end of ended) if (end.status === 'rejected') throw end.reason;
  return await results;
}

async function alone(options: EngineOptions, given: readonly TokenRow[] = rows): Promise<RowResult[]> {
  await using engine = await Engine.open({ ...OPENED, disk, ...options });
  return await collect(engine.generate(given, { logprobs: 2 }));
}

/** The rows, as far as a model has room for them, in tokens that it has. */
function rowsFor({ source: { decoder } }: Engine): TokenRow[] {
  const { contextTokens, vocabularySize } = decoder;
  return rows
    .filter(({ tokens, maxNewTokens = 0 }) => tokens.length + maxNewTokens <= contextTokens)
    .map((row) => ({ ...row, tokens: row.tokens.map((token) => token % vocabularySize) }));
}

/** What goes each way, message by message. */
function tapped(seen: PeerMessage[][]): NonNullable<RunApart['wrap']> {
  return ({ sink, source }, from) => ({
    source,
    sink: {
      send: (message) => {
        at(seen, from).push(message);
        return sink.send(message);
      },
      close: (error) => {
        sink.close(error);
      },
    },
  });
}

describe('prompts on an engine of their own', () => {
  test.each(['llama-Q8_0.gguf', 'qwen3', 'falcon-multi-query', 'mixtral', 'minicpm3', 'gpt-neox'])(
    '%s: the answers are those of one engine, to the bit',
    async (name) => {
      const options = { model: model(name) };
      await using ring = await promptsRing({ ...OPENED, disk, ...options });
      const given = rowsFor(at(ring.engines, 0));
      const one = await alone(options, given);
      expect(one.length).toBeGreaterThan(5);
      expect(one.every(({ error }) => error === undefined)).toBe(true);
      const seen: PeerMessage[][] = [[], []];
      expect(await run(ring, { rows: given, wrap: tapped(seen) })).toEqual(one);
      const asked = given.filter(({ tokens }) => tokens.length > 1).length;
      expect(at(seen, 0).filter(({ kind }) => kind === 'prompt')).toHaveLength(asked);
      const ended = at(seen, 1).filter((message) => message.kind === 'pages' && message.last);
      expect(ended).toHaveLength(asked);
    },
  );

  test.each([
    ['4bit', { compressCache: '4bit' }],
    ['float32', { precision: 'float32' }],
    ['sparse attention', { sparseAttention: 0.5 }],
    ['weights from disk', { weights: { cpu: 0, disk: 1 } }],
  ] as const)('%s: likewise', async (_, more) => {
    const options = { model: model('qwen3'), ...more };
    await using ring = await promptsRing({ ...OPENED, disk, ...options });
    expect(await run(ring)).toEqual(await alone(options));
  });

  test('batches of their own: blocks of the two need not be alike', async () => {
    const options = { model: model('llama-Q8_0.gguf') };
    const one = await alone(options);
    await fc.assert(
      fc.asyncProperty(blocks, blocks, fc.boolean(), async (block, other, sharePrefixes) => {
        await using ring = await promptsRing((index) => ({
          ...OPENED,
          disk,
          ...options,
          ...(index === 0 ? block : other),
        }));
        expect(await run(ring, { sharePrefixes })).toEqual(one);
      }),
      { numRuns: 8 },
    );
  });

  test('takes a valid path, computes no prompt but last tokens, and what crosses the link is the closed form', async () => {
    await using ring = await promptsRing({ ...OPENED, disk, model: model('llama-Q8_0.gguf') });
    const traces: TraceEvent[][] = [[], []];
    const seen: PeerMessage[][] = [[], []];
    await run(ring, {
      wrap: tapped(seen),
      onTrace: (event) => void at(traces, 0).push(event),
      follow: { onTrace: (event) => void at(traces, 1).push(event) },
    });
    const { layers, kvHeads, headDim } = at(ring.engines, 0).source.decoder;
    const pageBytes = layers * kvHeads * headDim * 2 * PAGE_TOKENS * 2;
    const pages = rows.reduce((sum, { tokens }) => sum + Math.ceil((tokens.length - 1) / PAGE_TOKENS), 0);
    const sent = at(seen, 1).reduce((sum, each) => sum + (each.kind === 'pages' ? each.values.length : 0), 0);
    expect(sent).toBe(pages * pageBytes);
    const tokensOf = (events: readonly TraceEvent[]): number =>
      events
        .filter(({ args }) => (args['part'] === 'project' || args['part'] === 'layer') && args['layer'] === 0)
        .flatMap(({ args }) => args['rows'] as readonly (readonly number[])[])
        .reduce((sum, [, , count = 0]) => sum + count, 0);
    // Of each row its last prompt token, and all new tokens but the last.
    expect(tokensOf(at(traces, 0))).toBe(rows.reduce((sum, { maxNewTokens = 0 }) => sum + maxNewTokens, 0));
    const grid = { layers, slots: 2, rowsPerSlot: 2, tokensPerSquare: 24 };
    for (const events of traces) {
      const admitted = rowsOfTrace(events);
      validatePath(grid, admitted, recordsOfTrace(events, admitted).records);
    }
  });

  test('nothing that other runs have left in memory crosses the link, also after a beginning that prompts share', async () => {
    const shared = Array.from({ length: 70 }, (_, j) => 7 + j);
    const prompts: TokenRow[] = Array.from({ length: 6 }, (_, i) => ({
      id: i,
      tokens: [...shared, 200 + i, 100 + i, 3],
      maxNewTokens: 1,
    }));
    // Of a cache that other rows have used some of: what none has touched is left to prompts on their way.
    const sentAfter = async (token: number): Promise<{ pages: string[]; beginnings: unknown[] }> => {
      await using ring = await promptsRing({ ...OPENED, batches: 8, disk, model: model('llama-Q8_0.gguf') });
      const before = Array.from({ length: 4 }, (_, id) => ({ id, tokens: new Array<number>(100).fill(token + id) }));
      await collect(at(ring.engines, 1).generate(before, { sharePrefixes: false }));
      const seen: PeerMessage[][] = [[], []];
      const beginnings: unknown[] = [];
      const onTrace = ({ name, args }: TraceEvent): void => {
        if (name === 'admit' && args['prefix'] === true) beginnings.push(args['promptTokens']);
      };
      await run(ring, { rows: prompts, wrap: tapped(seen), follow: { onTrace } });
      const pages = at(seen, 1).flatMap((each) =>
        each.kind === 'pages' ? [`${each.row} ${each.first} ${Buffer.from(each.values).toString('base64')}`] : [],
      );
      return { pages: pages.sort(), beginnings };
    };
    const [one, other] = [await sentAfter(20), await sentAfter(150)];
    expect(one.beginnings).toEqual([71]);
    expect(one.pages).toHaveLength(prompts.length);
    for (const [i, page] of one.pages.entries()) expect(other.pages[i] === page).toBe(true);
  });

  test('a prompt that the other engine has no room for is computed where it is generated', async () => {
    await using ring = await promptsRing({ ...OPENED, disk, model: model('llama-Q8_0.gguf') });
    const found = await run(ring, {
      wrap: ({ sink, source }, from) => ({
        source,
        sink: {
          ...sink,
          send: (message) => {
            if (from === 0 || message.kind !== 'pages' || message.row % 2 === 0) return sink.send(message);
            return sink.send({ ...message, first: 0, last: true, values: new Uint8Array(0) });
          },
        },
      }),
    });
    expect(found).toEqual(await alone({ model: model('llama-Q8_0.gguf') }));
  });

  test('rows that are scored or embedded are computed where they are asked for', async () => {
    await using ring = await promptsRing({ ...OPENED, disk, model: model('qwen3') });
    const asked = [{ tokens: [5, 6, 7], completions: [[8], [9, 10, 11]] }];
    const peers = ring.connect();
    const following = at(ring.engines, 1).follow(at(peers, 1));
    const found = [];
    for await (const { scores } of at(ring.engines, 0).score(asked, { peers: at(peers, 0) })) found.push(scores);
    await following;
    const expected = [];
    for await (const { scores } of at(ring.engines, 1).score(asked)) expected.push(scores);
    expect(found).toEqual(expected);
  });
});

describe('what does not fit', () => {
  const options = { ...OPENED, model: model('llama-Q8_0.gguf') } as const;

  test.each([
    [{ model: model('gemma2') }, /some of whose layers do not keep/],
    [{ model: model('lfm2') }, /some of whose layers do not keep/],
    [{ cache: { cpu: 0.5, disk: 0.5 } }, /a cache of which a part is on disk/],
    [{ kvEviction: 'sinks:4,window:64' }, /some of whose layers do not keep/],
  ] as const)('%j is refused by both', async (more, message) => {
    await using engine = await Engine.open({ ...options, disk, ...more });
    const peers = {
      source: { [Symbol.asyncIterator]: () => ({ next: () => new Promise<never>(() => undefined) }) },
      sink: { send: () => Promise.resolve(), close: () => undefined },
    };
    expect(() => engine.generate(rows, { peers })).toThrow(UsageError);
    expect(() => engine.generate(rows, { peers })).toThrow(message);
    await expect(engine.follow(peers)).rejects.toThrow(message);
  });

  test('micro-batches are refused, and squares that another engine announces', async () => {
    await using ring = await promptsRing({ ...options, disk });
    const peers = ring.connect();
    expect(() => at(ring.engines, 1).following(at(peers, 1))).toThrow(/following: found an engine of all layers/);
    expect(() => at(ring.engines, 0).generate(rows, { peers: at(peers, 0), microBatches: 2 })).toThrow(
      /microBatches: found 2 in an engine of all layers/,
    );
  });

  test('another model, and engines of some layers: both end with an error', async () => {
    await using ring = await promptsRing((index) => ({
      ...options,
      disk,
      ...(index === 1 && { model: model('llama-tied-biased') }),
    }));
    await expect(run(ring)).rejects.toThrow(/model contents: found/);
    await using part = await Engine.open({ ...options, disk, layers: { first: 0, count: 1 } });
    const peers = ring.connect();
    const ends = await Promise.allSettled([
      collect(part.generate(rows, { peers: at(peers, 0) })),
      at(ring.engines, 1).follow(at(peers, 1)),
    ]);
    for (const end of ends) expect(end).toMatchObject({ status: 'rejected', reason: expect.any(PeerError) });
  });

  test.each([0, 1, 2, 5])(
    'a peer that dies after %i messages ends the run, and the engines go on',
    async (messages) => {
      await using ring = await promptsRing({ ...options, disk });
      for (const dying of [0, 1]) {
        const broken = run(ring, { wrap: dyingAfter(messages, dying) });
        await expect(broken).rejects.toThrow();
      }
      expect((await run(ring)).every(({ error }) => error === undefined)).toBe(true);
    },
  );

  test.each([
    ['pages of fewer bytes', (values: Uint8Array) => ({ values: values.subarray(1) }), /expected \d+ from page 0 on/],
    ['pages from elsewhere', (values: Uint8Array) => ({ first: 1, values }), /from page 1 on/],
    ['an end too soon, or too late', (values: Uint8Array) => ({ last: false, values }), /expected \d+ from page 0 on/],
    ['those of another prompt', (values: Uint8Array) => ({ row: 999, values }), /pages: found those of prompt 999/],
  ])('%s end the run', async (_, changed, message) => {
    await using ring = await promptsRing({ ...options, disk });
    const wrong = run(ring, {
      wrap: ({ sink, source }) => ({
        source,
        sink: {
          send: (each) => sink.send(each.kind === 'pages' ? { ...each, ...changed(each.values) } : each),
          close: (error) => {
            sink.close(error);
          },
        },
      }),
    });
    await expect(wrong).rejects.toThrow(message);
  });

  test.each([
    ['tokens that there are not', { tokens: [1, 100_000] }, /prompt.tokens: found 100000, expected ids under/],
    ['a prompt of one token', { tokens: [1] }, /prompt.tokens: found 1, expected at least 2/],
  ])('%s end the run of the engine that computes them', async (_, changed, message) => {
    await using ring = await promptsRing({ ...options, disk });
    const wrong = run(ring, {
      wrap: ({ sink, source }) => ({
        source,
        sink: {
          send: (each) => sink.send(each.kind === 'prompt' ? { ...each, ...changed } : each),
          close: (error) => {
            sink.close(error);
          },
        },
      }),
    });
    await expect(wrong).rejects.toThrow(message);
  });

  test('who stops taking results lets the other engine go', async () => {
    await using ring = await promptsRing({ ...options, disk });
    const peers = ring.connect();
    const following = at(ring.engines, 1).follow(at(peers, 1));
    for await (const { error } of at(ring.engines, 0).generate(rows, { peers: at(peers, 0) })) {
      expect(error).toBeUndefined();
      break;
    }
    await Promise.allSettled([following]);
    expect((await run(ring)).every(({ error }) => error === undefined)).toBe(true);
  });
});

describe('over sockets', () => {
  const options: EngineOptions = { ...OPENED, model: model('llama-Q8_0.gguf') };
  const addressOf = (index: number): string => `unix:${join(disk, `prompts-${index}.sock`)}`;

  test('the bits are those of one engine, run after run', async () => {
    const one = await alone(options);
    await using ring = await promptsSockets({ ...options, disk }, addressOf);
    for (let runs = 0; runs < 2; runs++) {
      const peers = await ring.first.connect(ring.addresses);
      expect(await collect(ring.first.generate(rows, { logprobs: 2, peers }))).toEqual(one);
    }
    const [described] = await describePeers(ring.addresses);
    expect(described?.layers).toEqual({ first: 0, count: 2, of: 2, prompts: true });
  });

  test('who does not fit is told so before a run begins', async () => {
    await using ring = await promptsSockets({ ...options, disk }, addressOf);
    const [address = ''] = ring.addresses;
    await expect(ring.first.connect([address, address])).rejects.toThrow(/addresses: found 2, expected one/);
    await expect(ring.first.connect([address], { hiddenStates: 'bfloat16' })).rejects.toThrow(/none are sent/);
    await using part = await Engine.open({ ...options, disk, layers: { first: 0, count: 1 } });
    await expect(part.connect([address])).rejects.toThrow(/found an engine that computes prompts/);
    await using other = await Engine.open({ ...options, disk, compressCache: '8bit' });
    await expect(other.connect([address])).rejects.toThrow(/compressCache/);
  });
});
