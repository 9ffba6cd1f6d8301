import './support/emulatedAddon.js';
import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { cpSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import {
  Engine,
  MemoryBudgetError,
  UsageError,
  type EngineOptions,
  type Row,
  type RowResult,
  type RunOptions,
  type RunStats,
  type TraceEvent,
} from '../../src/index.js';
import { zigZagBlock } from '../../src/api/schedules.js';
import { recordsOfTrace, validatePath } from '../../src/api/testing.js';
import { fetchedPages } from '../../src/engine/memory/fetchedPages.js';
import { placePages } from '../../src/engine/memory/placePages.js';
import type { RowLimit } from '../../src/engine/memory/PagePool.js';
import { poolOf, type Opened } from '../../src/engine/open/Opened.js';
import type { PathMove } from '../../src/engine/schedules/PathRecord.js';
import { closedForm, closedFormBytes } from '../../src/plan/papers/closedForms.js';
import { schedules } from '../support/arbitraryRuns.js';
import { promptTrees } from '../support/promptTrees.js';
import { randomPipeline } from '../support/randomPipeline.js';
import { tries } from '../support/tries.js';
import { COMPANY, generated, unequalRows, type Generated } from './support/generated.js';
import { model } from '../e2e/support.js';
import { temporaryFolder } from '../jobs/support/files.js';

/** What of the cache is not on the GPU comes to it. */
const FETCHED = { gpuMemory: '32MiB', cpuAttention: false } as const;
const [there, here, onDisk] = [
  { gpu: 1, cpu: 0, disk: 0 },
  { gpu: 0, cpu: 1, disk: 0 },
  { gpu: 0, cpu: 0, disk: 1 },
];
const everywhere = { gpu: 0.4, cpu: 0.3, disk: 0.3 };
const disk = temporaryFolder()('disk');

const open = (options: Partial<EngineOptions>): Promise<Engine> =>
  Engine.open({ model: model('llama-Q4_1.gguf'), disk, batchSize: 3, tokensPerSquare: 16, ...FETCHED, ...options });

async function results(
  options: Partial<EngineOptions>,
  rows: readonly Row[],
  run?: RunOptions,
): Promise<readonly RowResult[]> {
  await using engine = await open(options);
  return (await generated(engine, rows, run)).results;
}

/** Rows of up to three pages, some sampled. */
const rows = unequalRows(37, 52);

const SETTINGS = [
  ['gemma3-mixed.gguf', { compressCache: '4bit' }],
  ['llama-Q4_1.gguf', {}],
  ['gpt-oss-MXFP4.gguf', {}],
  ['gemma2-Q8_0.gguf', { sparseAttention: 0.4, compressCache: '8bit' }],
  ['gemma3-mixed.gguf', {}],
  ['mistral', { compressCache: '8bit' }],
  ['qwen3', { precision: 'float32' }],
] as const;

describe.each(SETTINGS.slice(0, tries(1, SETTINGS.length)))('%s, %j', (name, more) => {
  test('a row has the bits of a cache on the GPU wherever its pages are, whatever its company', async () => {
    const options = { model: model(name), ...more };
    const expected = await results({ ...options, cpuAttention: true, cache: there }, rows);
    for (const cache of [here, onDisk]) expect(await results({ ...options, cache }, rows)).toEqual(expected);
    const given = fc.record(COMPANY);
    await fc.assert(
      fc.asyncProperty(given, async ({ batchSize, extra, window, schedule, composition, aheads, ...block }) => {
        const found = await results(
          {
            ...options,
            ...block,
            batchSize,
            tokensPerSquare: batchSize + extra,
            cache: everywhere,
            weights: { gpu: 0.3, cpu: 0.3, disk: 0.4 },
            activations: { cpu: 0.5, disk: 0.5 },
          },
          rows,
          { window, schedule, pipeline: randomPipeline(composition, aheads) },
        );
        expect(found).toEqual(expected);
      }),
      { numRuns: tries(1, 2) },
    );
  });
});

describe.each([everywhere, onDisk, here].slice(0, tries(1, 3)))('rows that begin alike, cache %j', (cache) => {
  test('have the same bits with sharing on and off, whatever the tree, the order, the schedule and the chunks', async () => {
    const count = fc.integer({ min: 1, max: 6 });
    const blocks = fc.record({
      batchSize: count,
      batches: fc.integer({ min: 1, max: 2 }),
      tokensPerSquare: fc.integer({ min: 6, max: 64 }),
    });
    await fc.assert(
      fc.asyncProperty(promptTrees(7), schedules, blocks, async (given, schedule, block) => {
        await using engine = await open({ ...block, cache });
        const shared = await generated(engine, given, { schedule });
        const alone = await generated(engine, given, { schedule, sharePrefixes: false });
        expect(shared.results).toEqual(alone.results);
      }),
      { numRuns: tries(1, 3) },
    );
  });

  test('load less than rows by themselves', async () => {
    const alike = Array.from({ length: 8 }, (_, id) => ({
      id,
      tokens: Array.from({ length: 68 }, (__, i) => (i < 64 ? i * 17 + 3 : id * 31 + i * 7) % 250),
      maxNewTokens: 4,
    }));
    await using engine = await open({
      batchSize: 8,
      tokensPerSquare: 128,
      policy: 'default',
      cache,
      // Beside a cache on disk there is memory for what rows share where they are expected to.
      expectedRows: { rows: 8, promptTokens: 68, newTokens: 4, sharedPrefixTokens: 64 },
    });
    const shared = await generated(engine, alike);
    const alone = await generated(engine, alike, { sharePrefixes: false });
    expect(shared.results).toEqual(alone.results);
    // 7 * 64, unless a row's turn comes before a page that it could share is there.
    const saved = shared.stats?.sharing.promptTokensSaved ?? 0;
    expect(saved).toBeGreaterThan(0);
    expect(saved % 32).toBe(0);
    const loaded = ({ stats }: Generated): number => stats?.bytes.cache['cpu→gpu'] ?? 0;
    expect(loaded(shared)).toBeLessThan(loaded(alone));
  });

  test('take no room from the rows: where they are expected, as many run at once as without sharing', async () => {
    const alike = Array.from({ length: 24 }, (_, id) => ({
      id,
      tokens: Array.from({ length: 100 }, (__, i) => (i < 96 ? i * 17 + 3 : id * 31 + i * 7) % 250),
      maxNewTokens: 8,
    }));
    await using engine = await open({
      batchSize: 8,
      tokensPerSquare: 128,
      policy: 'default',
      cache,
      expectedRows: { rows: 24, promptTokens: 100, newTokens: 8, sharedPrefixTokens: 96 },
    });
    const shared = await generated(engine, alike);
    const alone = await generated(engine, alike, { sharePrefixes: false });
    expect(shared.results).toEqual(alone.results);
    expect(shared.stats?.sharing.promptTokensSaved).toBeGreaterThan(0);
    const computed = ({ stats }: Generated): number => stats?.queues['gpu-compute']?.tasks ?? 0;
    expect(computed(shared)).toBeLessThanOrEqual(computed(alone));
  });
});

test('where a buffer has no room for all of a square, what its rows have in common comes more than once', async () => {
  const alike = Array.from({ length: 8 }, (_, id) => ({
    id,
    tokens: Array.from({ length: 68 }, (__, i) => (i < 64 ? i * 17 + 3 : id * 31 + i * 7) % 250),
    maxNewTokens: 4,
  }));
  const loaded = async (rowTokens: number): Promise<number> => {
    await using engine = await open({ batchSize: 8, tokensPerSquare: 128, policy: 'default', cache: here, rowTokens });
    return (await generated(engine, alike)).stats?.bytes.cache['cpu→gpu'] ?? 0;
  };
  // Of eight rows three pages each, two of them all rows': a buffer of eight pages holds six rows'.
  expect(await loaded(16)).toBeGreaterThan(await loaded(128));
});

describe('what crosses the link', () => {
  const uniform = (count: number, promptTokens: number, maxNewTokens: number): readonly Row[] =>
    Array.from({ length: count }, (_, id) => ({
      id,
      tokens: Array.from({ length: promptTokens }, (__, i) => (id * 31 + i * 17 + 3) % 250),
      maxNewTokens,
    }));

  test.each([
    ['none', 2],
    ['8bit', undefined],
    ['4bit', undefined],
  ] as const)('is the closed form, byte for byte (cache compressed: %s)', async (compressCache, bytesOfValue) => {
    await using engine = await open({ cache: here, compressCache, batchSize: 4, batches: 2, tokensPerSquare: 256 });
    const { layers, kvHeads, headDim } = engine.source.decoder;
    const [promptTokens, newTokens] = [40, 30];
    const { stats } = await generated(engine, uniform(8, promptTokens, newTokens), { schedule: zigZagBlock() });
    const form = closedForm('zigzag', {
      layers,
      batches: 2,
      rowsPerBatch: 4,
      slots: 2,
      promptTokens,
      newTokens,
      pageTokens: 32,
    });
    // A page's bytes by the memory that they take: heads are padded to lines.
    const pageBytes = stats?.memory['cpu'] ? cachePageBytes(engine) : 0;
    if (bytesOfValue !== undefined) expect(pageBytes).toBe(layers * 32 * 2 * kvHeads * headDim * bytesOfValue);
    const bytes = closedFormBytes(form, layers, {
      bytes: { layerWeights: 0, tokenCache: pageBytes / layers / 32, tokenActivations: 0 },
      weights: 0,
      cache: 1,
      activations: 0,
    });
    expect(stats?.bytes.cache).toEqual({ 'cpu→gpu': bytes.cacheLoaded, 'gpu→cpu': bytes.cacheStored });
  });

  test('and the path is valid: loads, computes, stores, with every byte of every page', async () => {
    const given = fc.record({
      rows: fc.array(
        fc.record({ promptTokens: fc.integer({ min: 1, max: 70 }), maxNewTokens: fc.integer({ min: 1, max: 5 }) }),
        { minLength: 1, maxLength: 5 },
      ),
      batchSize: fc.integer({ min: 1, max: 3 }),
      batches: fc.integer({ min: 1, max: 3 }),
      tokensPerSquare: fc.integer({ min: 4, max: 80 }),
      cache: fc.constantFrom(here, everywhere, { gpu: 0.5, cpu: 0.5, disk: 0 }),
      schedule: schedules,
      composition: fc.nat(),
      aheads: fc.record({ weights: fc.nat(2), cache: fc.nat(2), activations: fc.nat(2) }),
      window: fc.integer({ min: 1, max: 10 }),
    });
    await fc.assert(
      fc.asyncProperty(given, async ({ rows: lengths, schedule, composition, aheads, window, ...options }) => {
        const trace: TraceEvent[] = [];
        let stats: RunStats | undefined;
        await using engine = await open({ model: model('gemma3-mixed.gguf'), ...options });
        const { layerSpecs, layers } = engine.source.decoder;
        const input = lengths.map(({ promptTokens, maxNewTokens }, id) => ({
          id,
          tokens: Array.from({ length: promptTokens }, (_, at) => (id * 31 + at * 17 + 3) % 250),
          maxNewTokens,
        }));
        for await (const row of engine.generate(input, {
          ignoreEos: true,
          schedule,
          window,
          pipeline: randomPipeline(composition, aheads),
          onTrace: (event) => trace.push(event),
          onStats: (each) => (stats = each),
        }))
          expect(row.error).toBeUndefined();
        const admitted = lengths.map(({ promptTokens, maxNewTokens }, row) => ({
          row,
          promptTokens,
          newTokens: maxNewTokens,
        }));
        const { records, usage } = recordsOfTrace(trace, admitted);
        // Tables that no two rows share, as they are placed.
        const tables = lengths.map(({ promptTokens, maxNewTokens }, row) => {
          const placement = placePages(promptTokens + maxNewTokens - 1, {
            pageTokens: 32,
            gpuShare: options.cache.gpu,
            diskShare: options.cache.disk,
            mostDiskPages: Infinity,
          });
          const numbers = { gpu: 1000, memory: 0, tail: 0, disk: -500 };
          const count = Object.values(placement.pages).reduce((sum: number, each: number) => sum + each, 0);
          return {
            entries: Array.from({ length: count }, (_, page) => numbers[placement.tierOf(page)] + row * 10 + page),
            tail: -1,
          };
        });
        const pageBytes = cachePageBytes(engine) / layers;
        validatePath(
          {
            layers,
            slots: options.batches,
            rowsPerSlot: options.batchSize,
            tokensPerSquare: Math.max(options.tokensPerSquare, options.batchSize),
          },
          admitted,
          records.filter(({ task }) => !/weight|activation/.test(task.name)),
          new Set(),
          {
            moves: (name, { batch, layer }) => {
              const pages = fetchedPages(
                batch.rows.map((range) => [range, tables[range.row] ?? { entries: [], tail: -1 }]),
                { pageTokens: 32, firstGpuPage: 1000 },
                layerSpecs[layer]?.window ?? 0,
              );
              const moved = (from: string, to: string, count: number): PathMove[][] =>
                count === 0 ? [] : [[{ from, to, bytes: count * pageBytes }]];
              return name === 'load_cache'
                ? moved('cpu', 'gpu', pages.loads)
                : name === 'store_cache'
                  ? moved('gpu', 'cpu', pages.stores)
                  : [];
            },
            usage,
            capacityBytes: Object.fromEntries(
              Object.entries(stats?.memory ?? {}).map(([tier, { capacityBytes }]) => [tier, capacityBytes]),
            ),
          },
        );
      }),
      { numRuns: tries(1, 8) },
    );
  });
});

test('a cache that fits the GPU wholly stays there; statistics, plan and identity say what is', async () => {
  await using whole = await open({});
  const fits = await generated(whole, rows);
  expect(fits.stats?.bytes.cache).toEqual({});
  expect(fits.stats?.policy).toMatchObject({ cpuAttention: true });
  await using fetched = await open({ cache: onDisk });
  const { results: found, stats } = await generated(fetched, rows);
  expect(found).toEqual(fits.results);
  expect(stats?.policy).toMatchObject({ cpuAttention: false, cache: onDisk });
  expect(Object.keys(stats?.bytes.cache ?? {}).sort()).toEqual(['cpu→disk', 'cpu→gpu', 'disk→cpu', 'gpu→cpu']);
  expect(fetched.resultIdentity).toEqual(whole.resultIdentity);
});

test.each([
  { gpu: 0.9, cpu: 0.1, disk: 0 },
  { gpu: 0.9, cpu: 0, disk: 0.1 },
])('a share that is rounded to all of the pages opens, too: %j', async (cache) => {
  await using whole = await open({ cache: there });
  await using engine = await open({ cache });
  expect((await generated(engine, rows)).results).toEqual((await generated(whole, rows)).results);
  expect(engine.resultIdentity).toEqual(whole.resultIdentity);
});

describe('rows that are longer than was planned for', () => {
  /** A model of some thousand tokens of context. */
  function longModel(name: string, window?: number): string {
    const folder = join(disk, `${name}-${window ?? 'all'}`);
    cpSync(model(name), folder, { recursive: true });
    const config = join(folder, 'config.json');
    writeFileSync(
      config,
      JSON.stringify({
        ...(JSON.parse(readFileSync(config, 'utf8')) as object),
        max_position_embeddings: 8192,
        ...(window !== undefined && { sliding_window: window }),
      }),
    );
    return folder;
  }
  const longRow = [{ id: 0, tokens: Array.from({ length: 5000 }, (_, i) => (i * 17 + 3) % 120), maxNewTokens: 2 }];
  /** The least memory of a GPU that an engine opens with. */
  async function leastMemory(options: Partial<EngineOptions>): Promise<number> {
    try {
      await using engine = await open({ ...options, gpuMemory: 1000 });
      throw new Error(`found an engine of ${engine.source.path}, expected none`);
    } catch (error) {
      expect(error).toBeInstanceOf(MemoryBudgetError);
      const { tier, neededBytes } = error as MemoryBudgetError;
      expect(tier).toBe('gpu');
      await expect(open({ ...options, gpuMemory: neededBytes - 1 })).rejects.toThrow(MemoryBudgetError);
      return neededBytes;
    }
  }

  /** The longest row that an engine admits. */
  async function rowLimit(options: Partial<EngineOptions>): Promise<RowLimit> {
    await using engine = await open(options);
    return poolOf((engine as unknown as { readonly opened: Opened }).opened).rowLimit;
  }

  test('come through buffers with room for them, where the GPU has it; else the buffer is named, and rowTokens helps', async () => {
    const options = { model: longModel('llama'), batchSize: 1, tokensPerSquare: 512, cache: here };
    expect(await rowLimit(options)).toEqual({ tokens: 8192, by: 'pages' });
    const gpuMemory = await leastMemory(options);
    expect(await rowLimit({ ...options, gpuMemory })).toEqual({ tokens: 4096, by: 'buffers' });
    await using engine = await open({ ...options, gpuMemory });
    const message =
      'a buffer for pages of the KV cache that come to the GPU holds those of 4096 (cpuAttention: false or a share)';
    expect((await generated(engine, longRow)).results[0]?.error).toEqual({
      code: 'memory',
      message: `the row may need 5001 tokens of KV cache, ${message}: give a larger rowTokens, more gpuMemory, or fewer maxNewTokens`,
    });
    for await (const { error } of engine.embed(longRow.map(({ id, tokens }) => ({ id, tokens }))))
      expect(error?.message).toContain(message);
    const provided = { ...options, rowTokens: 5001 };
    const { tokens } = await rowLimit({ ...provided, gpuMemory: await leastMemory(provided) });
    expect(tokens).toBeGreaterThanOrEqual(5001);
  });

  test('are no longer than a window to a model that has nothing else', async () => {
    const options = { model: longModel('mistral', 8), batchSize: 1, tokensPerSquare: 64, cache: here };
    const gpuMemory = await leastMemory(options);
    expect(await rowLimit({ ...options, gpuMemory })).toEqual({ tokens: 8192, by: 'pages' });
  });
});

test('without a GPU it is refused by name', async () => {
  await expect(Engine.open({ model: model('llama-Q4_1.gguf'), cpuAttention: false })).rejects.toThrow(
    new UsageError(
      'cpuAttention: found false without `gpuMemory`, expected true: without a GPU the processor attends to everything',
    ),
  );
});

/** One page, all layers together. */
function cachePageBytes(engine: Engine): number {
  return (engine as unknown as { readonly opened: { readonly cache: { readonly pageBytes: number } } }).opened.cache
    .pageBytes;
}
