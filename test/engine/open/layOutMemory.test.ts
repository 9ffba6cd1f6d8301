import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, jest, test } from '@jest/globals';
import { loadAddon } from '../../../src/bindings/loadAddon.js';
import { encoderOptions } from '../../../src/engine/open/encoderOptions.js';
import { layOutMemory, longestRowOf, type MemoryLayout } from '../../../src/engine/open/layOutMemory.js';
import { poolOf } from '../../../src/engine/open/Opened.js';
import { planEngine } from '../../../src/engine/open/planEngine.js';
import { requestedOptions } from '../../../src/engine/open/validateOptions.js';
import type { EngineOptions } from '../../../src/EngineOptions.js';
import { MemoryBudgetError } from '../../../src/errors/MemoryBudgetError.js';
import type { ModelSource } from '../../../src/model/ModelSource.js';
import { partOf } from '../../../src/model/partOf.js';
import { shareOf } from '../../../src/model/shareOf.js';
import { readModel } from '../../../src/model/readModel.js';
import { shapeOfModel } from '../../../src/plan/ModelShape.js';
import { PAGE_TOKENS, typicalProcessBytes } from '../../../src/plan/reserves.js';
import { planPipeline } from '../../../src/plan/pipeline/planPipeline.js';
import { choosePolicy } from '../../../src/plan/search/choosePolicy.js';
import { CPU_MACHINE } from '../../plan/support/hardware.js';
import { machine as pipelineMachine } from '../../plan/support/machines.js';
import { BILLION } from './support.js';

/** What of an open cache its pages' number does not depend on. */
const CACHE = { pageTokens: PAGE_TOKENS, buffers: 0, pageBytes: 0, diskPageBytes: 0 };
describe('a policy that was planned for a machine', () => {
  const addon = loadAddon();
  const machine = addon.machine();
  /** A model of a billion weights, of types mixed by layer and tensor as llama.cpp mixes Q4_K_M; nobody opens it. */
  async function mixed(): Promise<ModelSource> {
    const tiny = await readModel(fileURLToPath(new URL('../../fixtures/models/llama-Q8_0.gguf', import.meta.url)));
    const sizes = new Map([
      [64, 2048],
      [32, 256],
      [96, 5632],
      [256, 32_000],
      [1, 1],
    ]);
    const sized = tiny.bindings.map((binding) => ({
      ...binding,
      rows: sizes.get(binding.rows) ?? 0,
      columns: sizes.get(binding.columns) ?? 0,
      segments: binding.segments.map((segment) => ({ ...segment, rows: sizes.get(segment.rows) ?? 0 })),
    }));
    const { layers } = BILLION;
    return {
      ...tiny,
      decoder: {
        ...tiny.decoder,
        ...BILLION,
        layerSpecs: Array.from({ length: layers }, () => ({ window: 0, rotaryTable: 0 })),
        embedding: { ...tiny.decoder.embedding, size: 2048 },
      },
      bindings: [
        ...sized.filter(({ layer }) => layer < 0),
        ...Array.from({ length: layers }, (_, layer) =>
          sized
            .filter((binding) => binding.layer === 0)
            .map((binding) => {
              const more = layer % 3 === 0 && /^(v|down)/.test(binding.role);
              return binding.kind === 'vector'
                ? { ...binding, layer }
                : { ...binding, layer, type: more ? ('Q6_K' as const) : ('Q4_K' as const) };
            }),
        ).flat(),
      ],
    };
  }

  // A plan counts a typical process; this one would be another from line to line.
  beforeAll(() => {
    jest.spyOn(process.memoryUsage, 'rss').mockReturnValue(typicalProcessBytes(32_000));
  });
  afterAll(() => {
    jest.restoreAllMocks();
  });

  test.each(Array.from({ length: 30 }, (_, at) => 450 + 10 * at))(
    'has pages for all rows of its block in %d MiB',
    async (mebibytes) => {
      const model = await mixed();
      const [cpuMemory, vocabularySize] = [mebibytes * 2 ** 20, model.decoder.vocabularySize];
      const expected = { promptTokens: 40, newTokens: 24, rows: 96 };
      const { policy } = choosePolicy({
        shape: shapeOfModel(model, 'mixed'),
        hardware: CPU_MACHINE,
        caps: { cpu: cpuMemory - typicalProcessBytes(vocabularySize) },
        workload: expected,
        allow: { schedules: ['zigzag'], batchSize: 24, batches: 4 },
      });
      expect(policy.weights.disk).toBeGreaterThan(0);
      const requested = requestedOptions({ model: model.path, cpuMemory, policy }, machine);
      const plan = await planEngine(model, requested, machine, expected);
      const { host } = layOutMemory(addon, model, requested, plan, machine, { expected, rowTokens: 64 });
      // One less would be a block of its own for the rows that are left, and twice the reading.
      const ownPages = Math.ceil(64 / PAGE_TOKENS);
      const onDisk = Math.min(ownPages - 1, Math.round(ownPages * policy.cache.disk));
      expect(host.pages).toBeGreaterThanOrEqual(96 * (ownPages - onDisk));
    },
  );

  test.each(
    [350, 400, 450, 500].flatMap((mebibytes) => [
      [mebibytes, 16, 8],
      [mebibytes, 32, 4],
      [mebibytes, 8, 5],
    ]),
  )(
    'has them in every engine of a pipeline, in %d MiB with batches of %d, %d of them',
    async (mebibytes, size, count) => {
      const model = await mixed();
      const [cpuMemory, vocabularySize] = [mebibytes * 2 ** 20, model.decoder.vocabularySize];
      const expected = { promptTokens: 40, newTokens: 24, rows: size * count };
      const machines = ['a', 'b', 'c', 'd'].map((name) => ({
        ...pipelineMachine(name),
        caps: { cpu: cpuMemory - typicalProcessBytes(vocabularySize) },
      }));
      const { stages } = planPipeline({
        shape: shapeOfModel(model, 'mixed'),
        machines,
        workload: expected,
        allow: { batchSize: size, batches: count },
      });
      for (const { layers, policy } of stages) {
        const part = partOf(model, layers);
        const requested = requestedOptions({ model: model.path, cpuMemory, policy, layers }, machine);
        const plan = await planEngine(part, requested, machine, expected);
        const { host } = layOutMemory(addon, part, requested, plan, machine, { expected, rowTokens: 64 });
        expect(host.pages).toBeGreaterThanOrEqual(size * count * Math.ceil(64 / PAGE_TOKENS));
      }
    },
  );

  test.each([2, 4])('has them in each of %i engines that attend to some rows, which share nothing', async (of) => {
    const model = await mixed();
    const cpuMemory = 1000 * 2 ** 20;
    const expected = { promptTokens: 512, newTokens: 64, rows: 48, sharedPrefixTokens: 480 };
    const tensorParallel = { index: 0, of, attention: 'rows' } as const;
    const requested = requestedOptions(
      {
        model: model.path,
        cpuMemory,
        policy: 'default',
        batchSize: 24,
        batches: 2,
        weights: { cpu: 0, disk: 1 },
        tensorParallel,
      },
      machine,
    );
    const share = shareOf(model, tensorParallel);
    const plan = await planEngine(share, requested, machine, expected);
    const { host } = layOutMemory(addon, share, requested, plan, machine, { expected, rowTokens: 576 });
    expect(host.pages).toBeGreaterThanOrEqual((48 / of) * (576 / PAGE_TOKENS));
  });

  const longRows = { promptTokens: 100, newTokens: 8, longRowTokens: 200 };
  test.each([
    ['nothing said', {}, {}],
    ['rows that are all known', {}, { longestRowTokens: 1500 }],
    ['a batch size', { batchSize: 24 }, {}],
    ['a policy that streams half', { batchSize: 32, batches: 3, weights: { cpu: 0.5, disk: 0.5 } }, {}],
    ['a policy that streams nothing', { batchSize: 16, batches: 2, weights: { cpu: 1, disk: 0 } }, {}],
    ['a cache on disk', { batchSize: 8, cache: { cpu: 0.4, disk: 0.6 } }, {}],
  ])('lets rows that a smaller cap holds through a larger one: %s', async (_, options, known) => {
    const model = await mixed();
    const expected = { ...longRows, ...known };
    const wanted = Math.min(2048, expected.longestRowTokens ?? 4096);
    let before = 0;
    for (let mebibytes = 240; mebibytes < 1000; mebibytes += 5) {
      const given = { model: model.path, cpuMemory: mebibytes * 2 ** 20, policy: 'default', ...options } as const;
      const requested = requestedOptions(given, machine);
      const plan = await planEngine(model, requested, machine, expected);
      let longest = 0;
      try {
        const { host, spill, settings, groups, grid } = layOutMemory(addon, model, requested, plan, machine, {
          expected,
          rowTokens: 200,
        });
        const { cacheOnDisk: share } = settings.memory;
        const disk = { pages: spill.pages, share, mostPerRow: spill.pagesPerRow };
        longest = Math.min(
          wanted,
          poolOf({ cache: { ...CACHE, groups, pages: host.pages, disk }, grid, gpu: undefined }).longestRow,
        );
      } catch (error) {
        if (!(error instanceof MemoryBudgetError)) throw error;
      }
      expect({ mebibytes, longest: Math.max(longest, before) }).toEqual({ mebibytes, longest });
      before = longest;
    }
    expect(before).toBe(wanted);
  });
});

describe('an encoder whose layers stream', () => {
  const addon = loadAddon();
  const machine = addon.machine();
  const [layers, hiddenSize, vocabularySize] = [24, 1024, 30_522];
  /** A BERT of 300 million weights, which nobody opens. */
  async function large(contextTokens: number): Promise<ModelSource> {
    const tiny = await readModel(fileURLToPath(new URL('../../fixtures/encoders/bert', import.meta.url)));
    const sizes = new Map([
      [tiny.decoder.hiddenSize, hiddenSize],
      [tiny.decoder.feedForwardSize, 4 * hiddenSize],
      [tiny.decoder.contextTokens, contextTokens],
      [tiny.decoder.vocabularySize, vocabularySize],
    ]);
    const sized = (size: number): number => sizes.get(size) ?? size;
    const bindings = tiny.bindings.map((binding) => ({
      ...binding,
      rows: sized(binding.rows),
      columns: sized(binding.columns),
      segments: binding.segments.map((segment) => ({ ...segment, rows: sized(segment.rows) })),
    }));
    return {
      ...tiny,
      decoder: {
        ...tiny.decoder,
        ...{ layers, hiddenSize, vocabularySize, contextTokens, heads: 16, kvHeads: 16, headDim: 64 },
        feedForwardSize: 4 * hiddenSize,
        layerSpecs: Array.from({ length: layers }, () => ({ window: 0, rotaryTable: 0 })),
        embedding: { ...tiny.decoder.embedding, size: hiddenSize },
      },
      bindings: [
        ...bindings.filter(({ layer }) => layer < 0),
        ...Array.from({ length: layers }, (_, layer) =>
          bindings.filter((binding) => binding.layer === 0).map((binding) => ({ ...binding, layer })),
        ).flat(),
      ],
    };
  }

  beforeAll(() => {
    jest.spyOn(process.memoryUsage, 'rss').mockReturnValue(typicalProcessBytes(vocabularySize));
  });
  afterAll(() => {
    jest.restoreAllMocks();
  });

  async function laidOut(
    cpuMemory: number,
    options: Partial<EngineOptions> = {},
    contextTokens = 512,
  ): Promise<MemoryLayout> {
    const model = await large(contextTokens);
    const requested = encoderOptions(
      model,
      requestedOptions({ model: model.path, cpuMemory, ...options }, machine),
      machine,
    );
    const plan = await planEngine(model, requested, machine, undefined);
    return layOutMemory(addon, model, requested, plan, machine, { expected: undefined, rowTokens: undefined });
  }

  test('has as many batches read a layer together as there is room for, each with pages for its squares', async () => {
    const together: number[] = [];
    for (let mebibytes = 256; mebibytes <= 800; mebibytes += 16) {
      const { grid, host } = await laidOut(mebibytes * 2 ** 20);
      if (host.residentLayerBytes === undefined) expect(grid.slots).toBe(1);
      else together.push(grid.slots * (grid.wholeRows ?? 0));
      if (grid.slots > 1)
        expect(host.pages).toBeGreaterThanOrEqual((2 * grid.slots * (grid.wholeRows ?? 0)) / PAGE_TOKENS);
    }
    // Tokens that a read of a layer serves.
    expect(together).toEqual([...together].sort((a, b) => a - b));
    expect(together.at(-1)).toBe(8 * 512);
  });

  test('holds the longest row that its square takes', async () => {
    for (const mebibytes of [700, 800, 900]) {
      const layout = await laidOut(mebibytes * 2 ** 20, {}, 8192);
      expect(layout.host.residentLayerBytes).toBeGreaterThanOrEqual(0);
      expect(longestRowOf(layout)).toBe(8192);
    }
  });

  test('is refused no budget, and no row, for batches that it is told to have', async () => {
    const layout = await laidOut(300 * 2 ** 20, { batches: 8 });
    expect(layout.grid.slots).toBe(8);
    expect(longestRowOf(layout)).toBe(512);
  });

  test('has one batch where each would read the layers for itself, and no more rows than have places', async () => {
    expect((await laidOut(400 * 2 ** 20, { schedule: 'row' })).grid.slots).toBe(1);
    expect((await laidOut(400 * 2 ** 20, { batchSize: 512 })).grid.slots).toBe(2);
  });

  test('has the batches that it is told to have, and one where its weights stay in memory', async () => {
    const told = await laidOut(400 * 2 ** 20, { batches: 2 });
    expect(told.host.residentLayerBytes).toBeGreaterThanOrEqual(0);
    expect(told.grid.slots).toBe(2);
    const inMemory = await laidOut(2 * 2 ** 30);
    expect(inMemory.host.residentLayerBytes).toBeUndefined();
    expect(inMemory.grid.slots).toBe(1);
  });
});
