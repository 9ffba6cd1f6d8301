import { EMULATED_ADDON } from './support/emulatedAddon.js';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import {
  Engine,
  InterruptedError,
  MemoryBudgetError,
  UsageError,
  type EngineOptions,
  type Row,
  type RowResult,
  type RunOptions,
  type RunStats,
} from '../../src/index.js';
import { diagonalBlock, rowByRow, zigZagBlock } from '../../src/api/schedules.js';
import { addonPath, loadAddon } from '../../src/bindings/loadAddon.js';
import { defaultPipeline } from '../../src/operators/defaultPipeline.js';
import { serialPipeline } from '../../src/operators/serialPipeline.js';
import { model, unequalRows } from '../e2e/support.js';
import type { HardwareProfile } from '../../src/plan/HardwareProfile.js';
import { builtIn } from '../plan/support/hardware.js';
import { agreement } from './support/agreement.js';
import { tries } from '../support/tries.js';

const GPU = { gpuMemory: '16MiB' } as const;
/**
 * Log-probabilities of the processor in float32 against products on halves, and in float32. (By default the processor
 * rounds activations to 8 bits, which in these models of random weights moves log-probabilities by up to a half.)
 */
const TOLERANCE = { default: 0.1, float32: 1e-4 };
/** A number that differs in its last bits may be rounded to the next code: so much more apart. */
const COMPRESSED_TOLERANCE = { default: { '8bit': 0.1, '4bit': 0.3 }, float32: { '8bit': 0.01, '4bit': 0.1 } };
/** Ids that every tiny model has. */
const greedy = unequalRows.map((row) => ({ ...row, tokens: row.tokens?.map((token) => token % 120) ?? [] }));
const sampled = greedy.map((row, i) => ({
  ...row,
  ...(i % 3 === 1 && { temperature: 0.8, topP: 0.9, seed: i }),
  ...(i % 5 === 2 && { repetitionPenalty: 1.3 }),
}));
/** Rows of up to three pages; the shortest context is 64 tokens. */
const long: readonly Row[] = Array.from({ length: 10 }, (_, i) => ({
  id: i,
  tokens: Array.from({ length: 1 + ((i * 37) % 52) }, (__, j) => (i * 31 + j * 17 + 3) % 120),
  maxNewTokens: 2 + ((i * 11) % 11),
}));
let disk: string;
beforeAll(() => {
  disk = mkdtempSync(join(tmpdir(), 'spillway-gpu-'));
});
afterAll(() => {
  rmSync(disk, { recursive: true });
});

async function generate(
  options: EngineOptions,
  rows: readonly Row[] = greedy,
  run: RunOptions = {},
): Promise<RowResult[]> {
  await using engine = await Engine.open({ batchSize: 4, tokensPerSquare: 16, disk, ...options });
  const results: RowResult[] = [];
  for await (const row of engine.generate(rows, { logprobs: 2, ...run })) results.push(row);
  return results;
}

test('without cuBLASLt it is said so, or the kernels multiply everything', async () => {
  const options = { model: model('llama-Q4_1.gguf'), ...GPU };
  await expect(generate({ ...options, gpuProducts: 'cublaslt' }, greedy.slice(0, 1))).rejects.toThrow(
    'gpu.products: found cublaslt, expected own: no libcublasLt was found',
  );
  let stats: RunStats | undefined;
  const onStats = (each: RunStats): void => void (stats = each);
  await expect(generate({ ...options, gpuProducts: 'auto' }, greedy.slice(0, 3), { onStats })).resolves.toEqual(
    await generate(options, greedy.slice(0, 3)),
  );
  expect(stats?.policy).toMatchObject({ gpuProducts: 'auto' });
});

test('the device is the emulated one', () => {
  expect(addonPath()).toBe(EMULATED_ADDON);
  expect(
    loadAddon()
      .machine()
      .gpus.map(({ name }) => name),
  ).toEqual(['emulated GPU']);
});

/** The native tests (GpuArchitecture) have every kind of model on the emulated device; here by day two of them. */
const MODELS = [
  'llama-Q8_0.gguf',
  'mixtral',
  'gpt-oss-MXFP4.gguf',
  'gemma3-mixed.gguf',
  'falcon-rw',
  'llama-Q4_K.gguf',
  'mistral',
  'qwen2',
  'qwen3',
  'qwen3-moe-Q4_0.gguf',
  'phi3',
  'gemma2-Q8_0.gguf',
  'llama-mlp-biased',
  'falcon-new',
  'gpt-neox',
  'opt-post-projected',
];

describe.each(MODELS.slice(0, tries(2, MODELS.length)))('%s', (name) => {
  test.each(['default', 'float32'] as const)('greedy answers are those of the processor (%s)', async (precision) => {
    const rows = greedy.slice(0, 12);
    const expected = await generate({ model: model(name), precision: 'float32' }, rows);
    const { compared, all } = agreement(
      expected,
      await generate({ model: model(name), precision, ...GPU }, rows),
      TOLERANCE[precision],
    );
    expect(compared).toBeGreaterThan(0.8 * all);
  });

  test('and they are with the cache on all tiers, attention on the processor for what is not on the GPU', async () => {
    const rows = long.slice(0, 5);
    const expected = await generate({ model: model(name), precision: 'float32' }, rows);
    const found = await generate(
      {
        model: model(name),
        precision: 'float32',
        ...GPU,
        cache: { gpu: 0.4, cpu: 0.3, disk: 0.3 },
        weights: { gpu: 0.5, cpu: 0.25, disk: 0.25 },
        batchSize: 3,
      },
      rows,
    );
    const { compared, all } = agreement(expected, found, TOLERANCE.float32);
    expect(compared).toBeGreaterThan(0.9 * all);
  });
});

describe.each(['llama-Q4_1.gguf', 'gemma3-mixed.gguf'])('%s', (name) => {
  test('a row does not depend on its company, its chunks, the schedule, nor on where weights and hidden states are: bitwise', async () => {
    const rows = sampled.slice(0, 12);
    const reference: RowResult[] = [];
    await using alone = await Engine.open({ model: model(name), ...GPU, disk, batchSize: 1, tokensPerSquare: 16 });
    for (const row of rows) for await (const result of alone.generate([row], { logprobs: 2 })) reference.push(result);
    const share = fc.constantFrom(0, 0.3, 0.5, 1);
    const setup = fc.record({
      onGpu: share,
      inMemory: share,
      activations: fc.constantFrom(undefined, 0, 0.5, 1),
      staying: fc.constantFrom(0, 0, 0.4, 1),
      batchSize: fc.integer({ min: 1, max: 9 }),
      batches: fc.integer({ min: 1, max: 3 }),
      extra: fc.integer({ min: 0, max: 40 }),
      window: fc.integer({ min: 1, max: 12 }),
      schedule: fc.constantFrom(rowByRow(), zigZagBlock(), diagonalBlock()),
      pipeline: fc.constantFrom(defaultPipeline, serialPipeline),
    });
    await fc.assert(
      fc.asyncProperty(
        setup,
        async ({ onGpu, inMemory, activations, staying, batchSize, batches, extra, window, schedule, pipeline }) => {
          const weights = { gpu: onGpu, cpu: (1 - onGpu) * inMemory, disk: (1 - onGpu) * (1 - inMemory) };
          const left = 1 - staying;
          const hidden =
            activations === undefined
              ? {}
              : { activations: { gpu: staying, cpu: left * (1 - activations), disk: left * activations } };
          const results = await generate(
            { model: model(name), ...GPU, weights, ...hidden, batchSize, batches, tokensPerSquare: batchSize + extra },
            rows,
            { window, schedule, pipeline },
          );
          expect(results).toEqual(reference.map((row, index) => ({ ...row, index })));
        },
      ),
      {
        numRuns: tries(1, 6),
        examples: [
          [
            {
              onGpu: 0.3,
              inMemory: 0.5,
              activations: 0.5,
              staying: 0.4,
              batchSize: 3,
              batches: 2,
              extra: 9,
              window: 8,
              schedule: diagonalBlock(),
              pipeline: defaultPipeline,
            },
          ],
        ],
      },
    );
  });
});

describe('a KV cache on three tiers', () => {
  const options: EngineOptions = { model: model('gemma3-mixed.gguf'), ...GPU };

  test('whatever lives where, and whatever the company: the same answers but for ties', async () => {
    const expected = await generate({ ...options, gpuMemory: 0, precision: 'float32' }, long);
    const share = fc.nat(4);
    const setup = fc.record({
      g: share,
      c: share,
      d: share,
      batchSize: fc.integer({ min: 1, max: 6 }),
      batches: fc.integer({ min: 1, max: 3 }),
      extra: fc.integer({ min: 0, max: 60 }),
      window: fc.integer({ min: 1, max: 12 }),
      schedule: fc.constantFrom(rowByRow(), zigZagBlock(), diagonalBlock()),
      pipeline: fc.constantFrom(defaultPipeline, serialPipeline),
    });
    await fc.assert(
      fc.asyncProperty(setup, async ({ g, c, d, batchSize, batches, extra, window, schedule, pipeline }) => {
        const sum = g + c + d;
        const cache = sum === 0 ? { gpu: 0, cpu: 1, disk: 0 } : { gpu: g / sum, cpu: c / sum, disk: d / sum };
        const found = await generate(
          { ...options, cache, batchSize, batches, tokensPerSquare: batchSize + extra },
          long,
          { window, schedule, pipeline },
        );
        const { compared, all } = agreement(expected, found, TOLERANCE.default);
        expect(compared).toBeGreaterThan(0.7 * all);
      }),
      { numRuns: tries(1, 5) },
    );
  });

  test('scores a text as the processor does', async () => {
    const tokens = Array.from({ length: 150 }, (_, i) => (i * 37 + 11) % 250);
    const score = async (more: Partial<EngineOptions>): Promise<number> => {
      await using engine = await Engine.open({ ...options, precision: 'float32', ...more });
      return (await engine.perplexity(tokens, { window: 80 })).negativeLogLikelihood;
    };
    const expected = await score({ gpuMemory: 0 });
    expect(Math.abs((await score({})) - expected)).toBeLessThan(1e-3);
    expect(Math.abs((await score({ cache: { gpu: 0.5, cpu: 0.5, disk: 0 } })) - expected)).toBeLessThan(1e-3);
  });
});

describe.each(['llama-Q8_0.gguf', 'gemma3-mixed.gguf'])('%s with a compressed KV cache', (name) => {
  const rows = long.slice(0, 4);
  const on = { gpu: 1, cpu: 0, disk: 0 };
  const everywhere = { gpu: 0.4, cpu: 0.3, disk: 0.3 };

  test.each(['8bit', '4bit'] as const)(
    'of %s: greedy answers are those of the processor, wherever its pages are',
    async (compressCache) => {
      const options: EngineOptions = { model: model(name), compressCache, precision: 'float32' };
      const expected = await generate(options, rows);
      const settings = [
        [everywhere, 'default'],
        [everywhere, 'float32'],
        [on, 'float32'],
        [{ gpu: 0, cpu: 1, disk: 0 }, 'float32'],
      ] as const;
      for (const [cache, precision] of settings.slice(0, tries(1, settings.length))) {
        let stats: RunStats | undefined;
        const found = await generate({ ...options, ...GPU, cache, precision, batchSize: 3 }, rows, {
          onStats: (each) => (stats = each),
        });
        const { compared, all } = agreement(expected, found, COMPRESSED_TOLERANCE[precision][compressCache]);
        expect(compared).toBeGreaterThan((precision === 'float32' ? 0.8 : 0.6) * all);
        expect(stats?.policy).toMatchObject({ cache, compressCache });
      }
    },
  );

  test.each(['none', '8bit'] as const)('and sparse attention (%s): likewise', async (compressCache) => {
    const options: EngineOptions = { model: model(name), compressCache, sparseAttention: 0.3, precision: 'float32' };
    const expected = await generate(options, rows);
    for (const cache of [on, everywhere]) {
      const { compared, all } = agreement(
        expected,
        await generate({ ...options, ...GPU, cache, batchSize: 3 }, rows),
        COMPRESSED_TOLERANCE.float32['8bit'],
      );
      expect(compared).toBeGreaterThan(0.8 * all);
    }
  });

  test('takes so much less of its memory', async () => {
    const peak = async (compressCache: 'none' | '8bit' | '4bit'): Promise<number> => {
      let stats: RunStats | undefined;
      await generate({ model: model(name), ...GPU, cache: on, compressCache, precision: 'float32' }, rows, {
        onStats: (each) => (stats = each),
      });
      return stats?.memory['gpu']?.peakBytes ?? 0;
    };
    const [plain, eight, four] = [await peak('none'), await peak('8bit'), await peak('4bit')];
    expect(eight).toBeLessThan(plain);
    expect(four).toBeLessThan(eight);
  });
});

describe('an engine on a GPU', () => {
  const rows = long.slice(0, 6);
  const third = { gpu: 0.4, cpu: 0.3, disk: 0.3 };
  const open = (): Promise<Engine> =>
    Engine.open({
      model: model('llama-Q4_1.gguf'),
      ...GPU,
      disk,
      batchSize: 3,
      tokensPerSquare: 16,
      weights: third,
      cache: third,
      activations: { cpu: 0.5, disk: 0.5 },
    });
  const run = async (engine: Engine, options: RunOptions = {}): Promise<RowResult[]> => {
    const results: RowResult[] = [];
    for await (const row of engine.generate(rows, { logprobs: 1, ...options })) results.push(row);
    return results;
  };

  test('is shared by runs, left early at any moment, closed in mid-run, and the next run is as if nothing had been', async () => {
    const engine = await open();
    let tasks = 0;
    const reference = await run(engine, { onTrace: () => tasks++ });
    for (const results of await Promise.all([run(engine), run(engine)])) expect(results).toEqual(reference);
    for (const part of [0.2, 0.02, 0, 0.5, 0.9].slice(0, tries(2, 5))) {
      const controller = new AbortController();
      let left = Math.floor(tasks * part);
      await expect(
        run(engine, { signal: controller.signal, onTrace: () => left-- <= 0 && controller.abort() }),
      ).rejects.toThrow(InterruptedError);
      for await (const row of engine.generate(rows, { logprobs: 1 })) if (row.index >= 5 * part) break;
    }
    await expect(run(engine)).resolves.toEqual(reference);
    await expect(run(engine, { onTrace: ({ ph }) => ph === 'X' && void engine.close() })).rejects.toThrow(
      InterruptedError,
    );
    await engine.close();
  });

  test('has room for so many runs of their own at once as its memory has: the others are refused, and those under way go on', async () => {
    const { neededBytes } = (await Engine.open({
      model: model('llama-Q4_1.gguf'),
      gpuMemory: 1000,
      cache: { gpu: 1, cpu: 0, disk: 0 },
    }).catch((error: unknown) => error)) as MemoryBudgetError;
    const engine = await Engine.open({
      model: model('llama-Q4_1.gguf'),
      gpuMemory: neededBytes,
      cache: { gpu: 1, cpu: 0, disk: 0 },
      disk,
    });
    const reference = await run(engine);
    const first = engine.generate(rows, { logprobs: 1 });
    const results = [(await first.next()).value];
    await expect(run(engine, { schedule: diagonalBlock() })).rejects.toThrow(/GPU|device/i);
    // A call that joins the run of the first one needs no room of its own.
    expect(await run(engine)).toEqual(reference);
    for await (const row of first) results.push(row);
    expect(results).toEqual(reference);
    await engine.close();
  });
});

describe('memory and traffic of a GPU', () => {
  const options: EngineOptions = { model: model('llama-Q4_1.gguf'), ...GPU };

  test('what is on it, what crosses the link and what comes from disk is in the statistics, shares within a panel', async () => {
    let stats: RunStats | undefined;
    const engine = await Engine.open({
      ...options,
      disk,
      batchSize: 4,
      tokensPerSquare: 16,
      weights: { gpu: 0.5, cpu: 0.2, disk: 0.3 },
      activations: { cpu: 0.5, disk: 0.5 },
    });
    for await (const row of engine.generate(greedy, { onStats: (each) => (stats = each) }))
      expect(row.error).toBeUndefined();
    await engine.close();
    const link = stats?.bytes.weights['cpu→gpu'] ?? 0;
    expect(link).toBeGreaterThan(0);
    expect((stats?.bytes.weights['disk→cpu'] ?? 0) / link).toBeGreaterThan(0.4);
    expect((stats?.bytes.weights['disk→cpu'] ?? 0) / link).toBeLessThan(0.8);
    expect(Object.keys(stats?.queues ?? {}).sort()).toEqual([
      'device-to-host',
      'disk-read',
      'disk-write',
      'gpu-compute',
      'host-to-device',
    ]);
    expect(stats?.bytes.activations['cpu→gpu']).toBe(stats?.bytes.activations['gpu→cpu']);
    expect(stats?.memory['gpu']?.capacityBytes).toBe(16 * 2 ** 20);
    expect(stats?.memory['gpu']?.peakBytes).toBeLessThanOrEqual(16 * 2 ** 20);
    expect(stats?.policy['weights']).toMatchObject({ gpu: expect.closeTo(0.5, 0) as unknown });
  });

  test.each<[string, Partial<EngineOptions>]>([
    ['', {}],
    [', with a compressed cache', { compressCache: '8bit' }],
    [', with a compressed cache in float32', { compressCache: '4bit', precision: 'float32' }],
    [', with sparse attention', { sparseAttention: 0.5 }],
  ])(
    'a cap that is too small is refused with the smallest one that works, and that one works, to the byte%s',
    async (_, more) => {
      const cache = { gpu: 1, cpu: 0, disk: 0 };
      const smallest = await Engine.open({ ...options, ...more, cache, gpuMemory: 1000, disk }).then(
        async (engine) => {
          await engine.close();
          throw new Error('it fitted');
        },
        (error: unknown) => error,
      );
      expect(smallest).toBeInstanceOf(MemoryBudgetError);
      const { neededBytes, tier } = smallest as MemoryBudgetError;
      expect(tier).toBe('gpu');
      await expect(Engine.open({ ...options, ...more, cache, gpuMemory: neededBytes - 1, disk })).rejects.toThrow(
        MemoryBudgetError,
      );
      await using engine = await Engine.open({ ...options, ...more, cache, gpuMemory: neededBytes, disk });
      const small: RowResult[] = [];
      for await (const row of engine.generate(greedy, { logprobs: 2 })) small.push(row);
      agreement(
        await generate({ model: options.model, precision: 'float32', ...more }),
        small,
        more.precision ? COMPRESSED_TOLERANCE.float32['4bit'] : TOLERANCE.default,
      );
    },
  );

  test('more than the device has is refused', async () => {
    await expect(Engine.open({ ...options, gpuMemory: '100GiB' })).rejects.toThrow(UsageError);
  });

  test('a machine whose GPU has been measured is planned for, and statistics set beside it what was predicted', async () => {
    const { processorName, processors, memoryBytes } = loadAddon().machine();
    const hardware: HardwareProfile = { ...builtIn('flexgen-t4'), machine: { processorName, processors, memoryBytes } };
    let stats: RunStats | undefined;
    const engine = await Engine.open({
      ...options,
      hardware,
      disk,
      expectedRows: { promptTokens: 20, newTokens: 6, rows: 10 },
    });
    expect(engine.plan).toMatchObject({ origin: 'auto', policy: { cpuAttention: true }, predicted: { fits: true } });
    for await (const row of engine.generate(long, { onStats: (each) => (stats = each) }))
      expect(row.error).toBeUndefined();
    await engine.close();
    expect(stats?.predicted?.queueSeconds).toHaveProperty('gpu-compute');
    expect(stats?.predicted?.memoryBytes.gpu).toBeGreaterThan(0);
    expect(stats?.plan).toMatchObject({ origin: 'auto', replans: [] });
    // What a given machine teaches is in the statistics, and kept for nobody.
    expect(stats?.corrections).toMatchObject({ learned: false });
    expect(Object.keys(stats?.corrections?.work ?? {}).some((kind) => kind.startsWith('compute.'))).toBe(true);
    expect(stats?.corrections?.work).not.toHaveProperty('between');
  });

  test('without it the same addon computes on the processor', async () => {
    let stats: RunStats | undefined;
    await generate({ model: options.model }, greedy, { onStats: (each) => (stats = each) });
    expect(Object.keys(stats?.memory ?? {})).toEqual(['cpu']);
    expect(Object.keys(stats?.queues ?? {})).toEqual(['cpu-compute']);
  });
});
