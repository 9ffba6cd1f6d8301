import { EMULATED_ADDON } from './support/emulatedAddon.js';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { diagonalBlock, Engine, MemoryBudgetError, rowByRow, UsageError, zigZagBlock, type EngineOptions, type Row, type RowResult, type RunOptions, type RunStats } from '../../src/index.js';
import { addonPath, loadAddon } from '../../src/bindings/loadAddon.js';
import { defaultPipeline } from '../../src/operators/defaultPipeline.js';
import { serialPipeline } from '../../src/operators/serialPipeline.js';
import { model, unequalRows } from '../e2e/support.js';
import { agreement } from './support/agreement.js';

const GPU = { gpuMemory: '16MiB' } as const;
/** Log-probabilities of products on halves against such on 8-bit activations; and in float32. */
const TOLERANCE = { default: 0.15, float32: 1e-4 };
/** Ids that every tiny model has. */
const greedy = unequalRows.map((row) => ({ ...row, tokens: row.tokens?.map((token) => token % 120) ?? [] }));
const sampled = greedy.map((row, i) => ({ ...row, ...(i % 3 === 1 && { temperature: 0.8, topP: 0.9, seed: i }), ...(i % 5 === 2 && { repetitionPenalty: 1.3 }) }));
let disk: string;
beforeAll(() => {
  disk = mkdtempSync(join(tmpdir(), 'spillway-gpu-'));
});
afterAll(() => {
  rmSync(disk, { recursive: true });
});

async function generate(options: EngineOptions, rows: readonly Row[] = greedy, run: RunOptions = {}): Promise<RowResult[]> {
  await using engine = await Engine.open({ batchSize: 4, tokensPerSquare: 16, disk, ...options });
  const results: RowResult[] = [];
  for await (const row of engine.generate(rows, { logprobs: 2, ...run })) results.push(row);
  return results;
}

test('the device is the emulated one', () => {
  expect(addonPath()).toBe(EMULATED_ADDON);
  expect(loadAddon().machine().gpus.map(({ name }) => name)).toEqual(['emulated GPU']);
});

describe.each([
  'llama-Q8_0.gguf', 'llama-Q4_K.gguf', 'mistral', 'mixtral', 'qwen2', 'qwen3', 'phi3', 'gemma3-mixed.gguf', 'falcon-rw', 'falcon-new', 'gpt-neox', 'opt-post-projected',
])('%s', (name) => {
  test.each(['default', 'float32'] as const)("greedy answers are those of the processor (%s)", async (precision) => {
    const rows = greedy.slice(0, 12);
    // AMX rounds weights of its own accord.
    const expected = await generate({ model: model(name), precision, instructionSet: 'scalar' }, rows);
    const { compared, all } = agreement(expected, await generate({ model: model(name), precision, ...GPU }, rows), TOLERANCE[precision]);
    expect(compared).toBeGreaterThan(0.7 * all);
  });
});

describe.each(['llama-Q4_1.gguf', 'gemma3-mixed.gguf'])('%s', (name) => {
  test('a row does not depend on its company, its chunks, the schedule, nor on where weights and hidden states are: bitwise', async () => {
    const rows = sampled.slice(0, 12);
    const reference: RowResult[] = [];
    for (const row of rows) reference.push(...(await generate({ model: model(name), ...GPU, batchSize: 1 }, [row])));
    const share = fc.constantFrom(0, 0.3, 0.5, 1);
    const setup = fc.record({
      onGpu: share, inMemory: share, activations: fc.constantFrom(undefined, 0, 0.5, 1),
      batchSize: fc.integer({ min: 1, max: 9 }), batches: fc.integer({ min: 1, max: 3 }), extra: fc.integer({ min: 0, max: 40 }),
      window: fc.integer({ min: 1, max: 12 }), schedule: fc.constantFrom(rowByRow(), zigZagBlock(), diagonalBlock()), pipeline: fc.constantFrom(defaultPipeline, serialPipeline),
    });
    await fc.assert(
      fc.asyncProperty(setup, async ({ onGpu, inMemory, activations, batchSize, batches, extra, window, schedule, pipeline }) => {
        const weights = { gpu: onGpu, cpu: (1 - onGpu) * inMemory, disk: (1 - onGpu) * (1 - inMemory) };
        const hidden = activations === undefined ? {} : { activations: { cpu: 1 - activations, disk: activations } };
        const results = await generate({ model: model(name), ...GPU, weights, ...hidden, batchSize, batches, tokensPerSquare: batchSize + extra }, rows, { window, schedule, pipeline });
        expect(results).toEqual(reference.map((row, index) => ({ ...row, index })));
      }),
      { numRuns: 8, examples: [[{ onGpu: 0.3, inMemory: 0.5, activations: 0.5, batchSize: 3, batches: 2, extra: 9, window: 8, schedule: diagonalBlock(), pipeline: defaultPipeline }]] },
    );
  });
});

describe('memory and traffic of a GPU', () => {
  const options: EngineOptions = { model: model('llama-Q4_1.gguf'), ...GPU };

  test('what is on it, what crosses the link and what comes from disk is in the statistics, shares within a panel', async () => {
    let stats: RunStats | undefined;
    const engine = await Engine.open({ ...options, disk, batchSize: 4, tokensPerSquare: 16, weights: { gpu: 0.5, cpu: 0.2, disk: 0.3 }, activations: { cpu: 0.5, disk: 0.5 } });
    for await (const row of engine.generate(greedy, { onStats: (each) => (stats = each) })) expect(row.error).toBeUndefined();
    await engine.close();
    const link = stats?.bytes.weights['cpu→gpu'] ?? 0;
    expect(link).toBeGreaterThan(0);
    expect((stats?.bytes.weights['disk→cpu'] ?? 0) / link).toBeGreaterThan(0.4);
    expect((stats?.bytes.weights['disk→cpu'] ?? 0) / link).toBeLessThan(0.8);
    expect(Object.keys(stats?.queues ?? {}).sort()).toEqual(['device-to-host', 'disk-read', 'disk-write', 'gpu-compute', 'host-to-device']);
    expect(stats?.bytes.activations['cpu→gpu']).toBe(stats?.bytes.activations['gpu→cpu']);
    expect(stats?.memory['gpu']?.capacityBytes).toBe(16 * 2 ** 20);
    expect(stats?.memory['gpu']?.peakBytes).toBeLessThanOrEqual(16 * 2 ** 20);
    expect(stats?.policy['weights']).toMatchObject({ gpu: expect.closeTo(0.5, 0) as unknown });
  });

  test('a cap that is too small is refused with the smallest one that works, and that one works, to the byte', async () => {
    const cache = { gpu: 1, cpu: 0, disk: 0 };
    const smallest = await Engine.open({ ...options, cache, gpuMemory: 1000, disk }).then(
      async (engine) => {
        await engine.close();
        throw new Error('it fitted');
      },
      (error: unknown) => error,
    );
    expect(smallest).toBeInstanceOf(MemoryBudgetError);
    const { neededBytes, tier } = smallest as MemoryBudgetError;
    expect(tier).toBe('gpu');
    await expect(Engine.open({ ...options, cache, gpuMemory: neededBytes - 1, disk })).rejects.toThrow(MemoryBudgetError);
    const small = await generate({ ...options, cache, batchSize: 64, tokensPerSquare: 512, gpuMemory: neededBytes });
    agreement(await generate({ model: options.model, instructionSet: 'scalar' }), small, TOLERANCE.default);
  });

  test('more than the device has is refused', async () => {
    await expect(Engine.open({ ...options, gpuMemory: '100GiB' })).rejects.toThrow(UsageError);
  });

  test('without it the same addon computes on the processor', async () => {
    let stats: RunStats | undefined;
    await generate({ model: options.model }, greedy, { onStats: (each) => (stats = each) });
    expect(Object.keys(stats?.memory ?? {})).toEqual(['cpu']);
    expect(Object.keys(stats?.queues ?? {})).toEqual(['cpu-compute']);
  });
});
