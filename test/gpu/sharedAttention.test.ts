import './support/emulatedAddon.js';
import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { Engine, UsageError, type EngineOptions, type Row, type RowResult, type RunOptions } from '../../src/index.js';
import { schedules } from '../support/arbitraryRuns.js';
import { promptTrees } from '../support/promptTrees.js';
import { randomPipeline } from '../support/randomPipeline.js';
import { tries } from '../support/tries.js';
import { COMPANY, generated, unequalRows } from './support/generated.js';
import { model } from '../e2e/support.js';
import { temporaryFolder } from '../jobs/support/files.js';

/** Of what of the cache is not on the GPU half comes to it, and the processor attends to the other half. */
const SHARED = { gpuMemory: '32MiB', cpuAttention: 0.5 } as const;
const here = { gpu: 0, cpu: 1, disk: 0 };
const half = { gpu: 0.5, cpu: 0.5, disk: 0 };
const everywhere = { gpu: 0.3, cpu: 0.4, disk: 0.3 };
const disk = temporaryFolder()('disk');

const open = (options: Partial<EngineOptions>): Promise<Engine> =>
  Engine.open({ model: model('llama-Q4_1.gguf'), disk, batchSize: 3, tokensPerSquare: 32, ...SHARED, ...options });

async function results(
  options: Partial<EngineOptions>,
  rows: readonly Row[],
  run?: RunOptions,
): Promise<readonly RowResult[]> {
  await using engine = await open(options);
  const { results: found } = await generated(engine, rows, run);
  for (const { error } of found) expect(error).toBeUndefined();
  return found;
}

/** Rows of one to four pages, some sampled. */
const rows = unequalRows(53, 113);

const SETTINGS = [
  ['gemma3-mixed.gguf', { compressCache: '4bit' }],
  ['gpt-oss-MXFP4.gguf', {}],
  ['gemma2-Q8_0.gguf', { sparseAttention: 0.4, compressCache: '8bit' }],
  ['llama-Q4_1.gguf', {}],
  ['qwen3', { precision: 'float32' }],
] as const;

describe.each(SETTINGS.slice(0, tries(2, SETTINGS.length)))('%s, %j', (name, more) => {
  test('a row has the bits of a cache whose first pages are on the GPU, whatever its company', async () => {
    const options = { model: model(name), ...more };
    const expected = await results({ ...options, cpuAttention: true, cache: half }, rows);
    expect(await results({ ...options, cache: here }, rows)).toEqual(expected);
    const given = fc.record({
      ...COMPANY,
      // All that the GPU attends to is half: of that none is there, or a share.
      there: fc.constantFrom(0, 0.25),
    });
    await fc.assert(
      fc.asyncProperty(given, async ({ batchSize, extra, window, schedule, composition, aheads, there, ...block }) => {
        const found = await results(
          {
            ...options,
            ...block,
            batchSize,
            tokensPerSquare: batchSize + extra,
            cache: { gpu: there, cpu: 1 - there, disk: 0 },
            cpuAttention: 0.5 / (1 - there),
            weights: { gpu: 0.3, cpu: 0.3, disk: 0.4 },
            activations: { cpu: 0.5, disk: 0.5 },
          },
          rows,
          { window, schedule, pipeline: randomPipeline(composition, aheads) },
        );
        expect(found).toEqual(expected);
      }),
      { numRuns: tries(1, 3) },
    );
  });
});

test('with pages on disk a row has the same bits whatever its company, schedule and composition', async () => {
  const expected = await results({ cache: everywhere }, rows);
  for (const row of [2, 5].slice(0, tries(1, 2))) {
    const alone = rows.slice(row, row + 1);
    const [{ index: _, ...found } = {}] = await results({ cache: everywhere, batchSize: 1 }, alone);
    const { index: __, ...own } = expected[row] ?? {};
    expect(found).toEqual(own);
  }
  const given = fc.record({ schedule: schedules, batchSize: fc.integer({ min: 1, max: 6 }), composition: fc.nat() });
  await fc.assert(
    fc.asyncProperty(given, async ({ schedule, batchSize, composition }) => {
      const pipeline = randomPipeline(composition, { weights: 1, cache: 1, activations: 1 });
      expect(await results({ cache: everywhere, batchSize }, rows, { schedule, pipeline })).toEqual(expected);
    }),
    { numRuns: tries(1, 4) },
  );
});

test('rows that begin alike have the same bits with sharing on and off, and share what they can', async () => {
  await fc.assert(
    fc.asyncProperty(promptTrees(7), schedules, fc.constantFrom(here, half), async (given, schedule, cache) => {
      await using engine = await open({ tokensPerSquare: 64, cache });
      const shared = await generated(engine, given, { schedule });
      const alone = await generated(engine, given, { schedule, sharePrefixes: false });
      expect(shared.results).toEqual(alone.results);
    }),
    { numRuns: tries(1, 4) },
  );
  const alike = Array.from({ length: 6 }, (_, id) => ({
    id,
    tokens: Array.from({ length: 100 }, (__, i) => (i < 96 ? i * 17 + 3 : id * 31 + i * 7) % 250),
    maxNewTokens: 4,
  }));
  await using engine = await open({ batchSize: 6, tokensPerSquare: 256, cache: here });
  const { results: found, stats } = await generated(engine, alike);
  expect(found).toEqual((await generated(engine, alike, { sharePrefixes: false })).results);
  expect(stats?.sharing.promptTokensSaved).toBe(5 * 96);
});

test('what comes over the link is the first half of each row, whole pages; what is new stays at home', async () => {
  const uniform = Array.from({ length: 4 }, (_, id) => ({
    id,
    tokens: Array.from({ length: 120 }, (__, i) => (id * 31 + i * 17 + 3) % 250),
    maxNewTokens: 9,
  }));
  const options = { batchSize: 4, tokensPerSquare: 512, cache: here };
  await using engine = await open(options);
  const { stats } = await generated(engine, uniform);
  const { layers, kvHeads, headDim } = engine.source.decoder;
  const pageBytes = layers * 32 * 2 * kvHeads * headDim * 2;
  // Four pages a row, of which two come, in eight steps after the prompt; these go home once, when they are computed.
  expect(stats?.bytes.cache).toEqual({ 'cpu→gpu': 4 * 2 * 8 * pageBytes, 'gpu→cpu': 4 * 2 * pageBytes });
  expect(stats?.queues['cpu-compute']?.tasks).toBe(9 * layers);
  expect(stats?.policy).toMatchObject({ cpuAttention: 0.5, cache: here });
});

test('results say what attends to them: as a cache whose first pages are there', async () => {
  await using shared = await open({ cache: here });
  await using there = await open({ cache: half, cpuAttention: true });
  await using quarter = await open({ cache: here, cpuAttention: 0.75 });
  expect(shared.resultIdentity).toEqual(there.resultIdentity);
  expect(quarter.resultIdentity).not.toEqual(there.resultIdentity);
  await using spilled = await open({ cache: everywhere });
  expect(spilled.resultIdentity.gpu).toMatchObject({ cacheOnDisk: { share: 0.3, behind: 0.3 } });
});

test('a share is a number from 0 to 1, for a GPU; its ends are true and false', async () => {
  for (const cpuAttention of [-0.1, 1.5, NaN, '0.5', null])
    await expect(open({ cpuAttention: cpuAttention as number })).rejects.toThrow(
      /cpuAttention: found .*, expected true, false, or a share from 0 to 1/,
    );
  await expect(open({ cpuAttention: 0.5, gpuMemory: 0 })).rejects.toThrow(UsageError);
  for (const [number, word] of [
    [0, false],
    [1, true],
  ] as const) {
    await using one = await open({ cache: half, cpuAttention: number });
    await using other = await open({ cache: half, cpuAttention: word });
    expect(one.resultIdentity).toEqual(other.resultIdentity);
    const { stats } = await generated(one, rows.slice(0, 1));
    expect(stats?.policy).toMatchObject({ cpuAttention: word });
  }
});
