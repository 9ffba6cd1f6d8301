import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, jest, test } from '@jest/globals';
import { loadAddon } from '../../../src/bindings/loadAddon.js';
import { layOutMemory, smallerBlocks } from '../../../src/engine/open/layOutMemory.js';
import { poolOf } from '../../../src/engine/open/Opened.js';
import { planEngine } from '../../../src/engine/open/planEngine.js';
import { requestedOptions } from '../../../src/engine/open/validateOptions.js';
import type { EngineOptions } from '../../../src/EngineOptions.js';
import { MemoryBudgetError } from '../../../src/errors/MemoryBudgetError.js';
import type { ModelSource } from '../../../src/model/ModelSource.js';
import { partOf } from '../../../src/model/partOf.js';
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
const planned: EngineOptions = { model: 'm', batchSize: 200, batches: 4, weights: { cpu: 0.5, disk: 0.5 } };
const blocks = (given: Partial<EngineOptions>, searches = false): Partial<EngineOptions>[] =>
  [...smallerBlocks(planned, { model: 'm', ...given }, searches)].map(({ model: _, ...rest }) => rest);

describe('the blocks that are tried where memory is scarce', () => {
  test('begin with the plan, and go from the usual block down to one row', () => {
    expect(blocks({})).toEqual([
      { batchSize: 200, batches: 4, weights: { cpu: 0.5, disk: 0.5 } },
      {},
      { tokensPerSquare: 128 },
      { tokensPerSquare: 48 },
      { tokensPerSquare: 16 },
      { tokensPerSquare: 16, batchSize: 1, batches: 1 },
    ]);
  });

  test('keep what the caller has said: a row of a square needs a token of it', () => {
    for (const block of blocks({ batchSize: 100, schedule: 'row' }).slice(1))
      expect(block).toMatchObject({ batchSize: 100, schedule: 'row' });
    expect(blocks({ batchSize: 100 }).map(({ tokensPerSquare }) => tokensPerSquare)).toEqual([
      undefined,
      undefined,
      128,
      100,
      100,
    ]);
    expect(blocks({ batchSize: 8, batches: 2 }).at(-1)).toEqual({ batchSize: 8, batches: 2, tokensPerSquare: 16 });
    expect(blocks({ batchSize: 300, batches: 2 }).at(-1)).toEqual({ batchSize: 300, batches: 2, tokensPerSquare: 300 });
    expect(blocks({ tokensPerSquare: 512 }).at(-1)).toEqual({ batchSize: 1, batches: 1, tokensPerSquare: 512 });
  });

  test('end with what a search may do besides, where it is left open', () => {
    const [cacheOnDisk, compressed] = blocks({ compressCache: 'auto', compressWeights: '8bit' }, true).slice(-2);
    expect(cacheOnDisk).toMatchObject({ cache: { cpu: 0, disk: 1 }, compressCache: 'none', compressWeights: '8bit' });
    expect(compressed).toMatchObject({ cache: { cpu: 0, disk: 1 }, compressCache: '4bit', compressWeights: '8bit' });
    for (const block of blocks({ weights: { cpu: 1, disk: 0 } }, true)) expect(block.cache).toBeUndefined();
  });

  test('are the planned one for engines that have to agree, and fewer of its batches where nobody has said how many', () => {
    const layers = { first: 0, count: 1 };
    expect(blocks({ layers }).map(({ batches }) => batches)).toEqual([4, 3, 2, 1]);
    expect(blocks({ layers, batches: 2 })).toHaveLength(1);
  });
});

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
