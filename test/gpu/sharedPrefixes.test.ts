import './support/emulatedAddon.js';
import { expect, test } from '@jest/globals';
import fc from 'fast-check';
import { Engine, InterruptedError, type EngineOptions, type Row } from '../../src/index.js';
import type { PagePool } from '../../src/engine/memory/PagePool.js';
import { model } from '../e2e/support.js';
import { temporaryFolder } from '../jobs/support/files.js';
import type { Opened } from '../../src/engine/open/Opened.js';
import { schedules } from '../support/arbitraryRuns.js';
import { promptTrees } from '../support/promptTrees.js';
import { tries } from '../support/tries.js';
import { generated, type Generated } from './support/generated.js';

const LLAMA = 'llama-Q4_1.gguf';
const [there, half, here] = [
  { gpu: 1, cpu: 0, disk: 0 },
  { gpu: 0.5, cpu: 0.5, disk: 0 },
  { gpu: 0, cpu: 1, disk: 0 },
];
const folder = temporaryFolder()('disk');

const open = (options: Partial<EngineOptions>): Promise<Engine> =>
  Engine.open({ model: model(LLAMA), disk: folder, gpuMemory: '16MiB', ...options });

const saved = ({ stats }: Generated): number | undefined => stats?.sharing.promptTokensSaved;

/** Rows whose prompts begin with so many tokens alike. */
function alike(rows: number, common: number, own: number, maxNewTokens = 4): readonly Row[] {
  const tokenOf = (row: number, i: number): number => (i < common ? i * 17 + 3 : row * 31 + i * 7) % 250;
  return Array.from({ length: rows }, (_, id) => ({
    id,
    tokens: Array.from({ length: common + own }, (__, i) => tokenOf(id, i)),
    maxNewTokens,
  }));
}

const SETTINGS: readonly Partial<EngineOptions>[] = [
  { cache: there },
  { cache: here, precision: 'float32' },
  { model: 'gemma3-mixed.gguf', cache: half, compressCache: '4bit' },
  { cache: { gpu: 0.4, cpu: 0.6, disk: 0 }, weights: { gpu: 0.3, cpu: 0.7, disk: 0 }, sparseAttention: 0.4 },
  { model: 'gemma3-mixed.gguf', cache: half },
  { cache: half, compressCache: '8bit', sparseAttention: 0.3 },
  { model: 'gemma2-Q8_0.gguf', cache: half, sparseAttention: 0.4 },
];

test.each(SETTINGS.slice(0, tries(4, SETTINGS.length)))(
  'the same bits with sharing on and off, whatever the tree, the order, the schedule and the chunks: %j',
  async (more) => {
    const count = fc.integer({ min: 1, max: 6 });
    const blocks = fc.record({
      batchSize: count,
      batches: fc.integer({ min: 1, max: 2 }),
      tokensPerSquare: fc.integer({ min: 6, max: 64 }),
    });
    await fc.assert(
      fc.asyncProperty(promptTrees(7), schedules, blocks, async (rows, schedule, block) => {
        await using engine = await open({ ...block, ...more, model: model(more.model ?? LLAMA) });
        const shared = await generated(engine, rows, { schedule });
        const alone = await generated(engine, rows, { schedule, sharePrefixes: false });
        expect(shared.results).toEqual(alone.results);
        expect(saved(alone)).toBe(0);
      }),
      { numRuns: tries(1, 3) },
    );
  },
);

test('statistics say what was saved; the GPU holds one copy', async () => {
  const rows = alike(16, 80, 2);
  await using engine = await open({ batchSize: 16, tokensPerSquare: 128, cache: there });
  const shared = await generated(engine, rows);
  const alone = await generated(engine, rows, { sharePrefixes: false });
  expect(saved(shared)).toBe(15 * 80);
  expect(shared.stats?.tokens).toEqual(alone.stats?.tokens);
  const peak = ({ stats }: Generated): number => stats?.memory['gpu']?.peakBytes ?? NaN;
  expect(peak(shared)).toBeLessThan(peak(alone));
});

test('a cache that is wholly on the GPU takes no page in memory for what rows share', async () => {
  const expectedRows = { rows: 16, promptTokens: 82, newTokens: 4, sharedPrefixTokens: 80 };
  await using engine = await open({
    batchSize: 16,
    tokensPerSquare: 128,
    policy: 'default',
    cache: there,
    expectedRows,
  });
  expect((engine as unknown as { readonly opened: Opened }).opened.cache.pages).toBe(0);
  const { stats } = await generated(engine, alike(16, 80, 2));
  expect(Object.keys(stats?.queues ?? {})).not.toContain('cpu-compute');
});

test('rows share for as long as their pages are on the same tiers', async () => {
  // One of three pages, and two of four: the second is in memory for some, on the GPU for others.
  const rows = [...alike(4, 80, 5, 4), ...alike(4, 80, 5, 20).map((row) => ({ ...row, id: `long ${String(row.id)}` }))];
  await using engine = await open({ batchSize: 8, tokensPerSquare: 128, cache: { gpu: 0.4, cpu: 0.6, disk: 0 } });
  const shared = await generated(engine, rows);
  expect(shared.results).toEqual((await generated(engine, rows, { sharePrefixes: false })).results);
  // All but the first of each kind, whose first page is the same.
  expect(saved(shared)).toBe(2 * 3 * 80 + 32);
});

test('with pages on disk rows share nothing', async () => {
  const rows = alike(4, 60, 5);
  await using engine = await open({ batchSize: 4, tokensPerSquare: 64, cache: { gpu: 0.4, cpu: 0.3, disk: 0.3 } });
  expect(saved(await generated(engine, rows))).toBe(0);
});

test('left early at any moment, a run holds nothing of what its rows shared', async () => {
  const rows = alike(5, 40, 3, 3);
  await using engine = await open({ batchSize: 3, tokensPerSquare: 24, cache: half });
  const { pool } = (engine as unknown as { readonly runs: { readonly pool: PagePool } }).runs;
  let tasks = 0;
  const reference = await generated(engine, rows, { onTrace: () => tasks++ });
  expect(saved(reference)).toBeGreaterThan(0);
  for (const part of [0.1, 0.8, 0, 0.4].slice(0, tries(2, 4))) {
    const controller = new AbortController();
    let left = Math.floor(tasks * part);
    const onTrace = (): void => {
      if (left-- <= 0) controller.abort();
    };
    await expect(generated(engine, rows, { signal: controller.signal, onTrace })).rejects.toThrow(InterruptedError);
    for await (const row of engine.generate(rows, { ignoreEos: true })) if (row.index >= 4 * part) break;
    expect(pool.used).toEqual({ gpu: 0, memory: 0, disk: 0 });
  }
  expect((await generated(engine, rows)).results).toEqual(reference.results);
});
