import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, jest, test } from '@jest/globals';
import type { MachineFacts } from '../../../src/bindings/Addon.js';
import { loadAddon } from '../../../src/bindings/loadAddon.js';
import { checkEngineOptions, requestedOptions } from '../../../src/engine/open/validateOptions.js';
import { planEngine, type Plan } from '../../../src/engine/open/planEngine.js';
import type { MachineSpeed } from '../../../src/plan/atSpeed.js';
import type { HardwareProfile } from '../../../src/plan/HardwareProfile.js';
import type { ProfileOptions } from '../../../src/profile/profileMachine.js';
import { choosePolicy } from '../../../src/plan/search/choosePolicy.js';
import { blockSecondsOf, settingOf } from '../../../src/plan/predict.js';
import { parsePolicy } from '../../../src/plan/Policy.js';
import { predict } from '../../../src/plan/predict.js';
import { settle, type Settings } from '../../../src/engine/open/settings.js';
import type { EngineOptions } from '../../../src/EngineOptions.js';
import { InterruptedError } from '../../../src/errors/InterruptedError.js';
import { NativeError } from '../../../src/errors/engineErrors.js';
import { UsageError } from '../../../src/errors/UsageError.js';
import type { ExpectedRows } from '../../../src/ExpectedRows.js';
import type { ModelSource } from '../../../src/model/ModelSource.js';
import { readModel } from '../../../src/model/readModel.js';
import { builtIn, CPU_MACHINE } from '../../plan/support/hardware.js';
import { BILLION } from './support.js';
import { tries } from '../../support/tries.js';

const TINY = await readModel(fileURLToPath(new URL('../../fixtures/models/llama-Q8_0.gguf', import.meta.url)));
const machine = loadAddon().machine();
/** This machine, as fast as the one of the other tests. */
const HERE: HardwareProfile = {
  ...CPU_MACHINE,
  machine: { processorName: machine.processorName, processors: machine.processors, memoryBytes: machine.memoryBytes },
};
const MANY: ExpectedRows = { promptTokens: 64, newTokens: 32 };

/** A model of about a billion weights, which nobody opens: plans need sizes alone. */
const LARGE: ModelSource = {
  ...TINY,
  path: '/models/large.gguf',
  decoder: {
    ...TINY.decoder,
    ...BILLION,
  },
  bindings: TINY.bindings.flatMap((binding) => {
    if (binding.kind === 'vector') return [];
    if (binding.layer < 0) return [{ ...binding, rows: 32_000, columns: 2048 }];
    // All matrices of a layer as one.
    return binding.layer === 0 && binding.role.includes('down')
      ? Array.from({ length: 22 }, (_, layer) => ({ ...binding, layer, rows: 2048, columns: 21_504 }))
      : [];
  }),
};

/** One block: nothing is searched, where a test is about what a plan asks for, and not about the plan. */
const ONE_BLOCK = { schedule: 'zigzag', batchSize: 8, batches: 2 } as const;

const AS_EVER: MachineSpeed = { memory: 1, fewRows: 1, manyRows: 1 };

async function planned(
  more: Partial<EngineOptions>,
  {
    model = LARGE,
    expected = MANY,
    profileOf,
    speed = AS_EVER,
    repackedBytes = 0,
  }: {
    model?: ModelSource;
    expected?: ExpectedRows;
    profileOf?: (options?: ProfileOptions) => Promise<HardwareProfile>;
    speed?: MachineSpeed;
    repackedBytes?: number;
  } = {},
): Promise<Plan> {
  const options: EngineOptions = { model: model.path, cpuMemory: '4GiB', ...more };
  return planEngine(model, requestedOptions(options, machine), machine, expected, {
    profileOf: profileOf ?? (() => Promise.reject(new Error('this machine must not be measured here'))),
    speedOf: () => Promise.resolve(speed),
    repackedBytes: () => Promise.resolve(repackedBytes),
  });
}

// Plans are for what a cap leaves beside what this process holds, which would be another figure from one line of a test
// to the next.
beforeAll(() => {
  jest.spyOn(process.memoryUsage, 'rss').mockReturnValue(300 * 2 ** 20);
});
afterAll(() => {
  jest.restoreAllMocks();
});

describe('the plan of an engine', () => {
  test('is searched for the rows that are expected, and opens it as it says', async () => {
    const { report: plan, options, streams, request } = await planned({ hardware: HERE });
    expect(plan).toMatchObject({
      origin: 'auto',
      workload: { promptTokens: 64, newTokens: 32 },
      predicted: { fits: true },
    });
    expect(options).toMatchObject({
      batchSize: plan.policy?.batchSize,
      batches: plan.policy?.batches,
      schedule: plan.policy?.schedule,
      compressWeights: 'none',
      compressCache: 'none',
    });
    expect(streams).toBe(false);
    // What this process holds already is not there for the plan.
    expect(request?.hardware.memory.cpuBytes).toBeLessThan(4 * 2 ** 30 - process.memoryUsage.rss() / 2);
  });

  test('of a part of the layers has as many batches as such parts make the model, unless somebody says how many', async () => {
    const of = async (layers: number, more: Partial<EngineOptions> = {}): Promise<number | undefined> => {
      const part = { firstLayer: 0, modelLayers: 22 };
      const model = { ...LARGE, decoder: { ...LARGE.decoder, layers, part } };
      return (await planned({ layers: { first: 0, count: layers }, ...more }, { model })).options.batches;
    };
    expect([await of(11), await of(8), await of(20), await of(1), await of(22)]).toEqual([2, 3, 2, 8, 1]);
    expect(await of(11, { batches: 5 })).toBe(5);
    expect(await of(11, { policy: 'default' })).toBe(2);
  });

  test('has layers stream where the model does not fit, in larger blocks', async () => {
    const tight = { hardware: HERE, cpuMemory: process.memoryUsage.rss() + 600 * 2 ** 20 };
    const { report: plan, options, streams } = await planned({ ...tight, schedule: 'zigzag' });
    expect(streams).toBe(true);
    expect(plan.policy?.weights.disk).toBeGreaterThan(0.2);
    // How much of a layer stays in memory is found when it is opened, to the byte.
    expect(options.weights).toBeUndefined();
  });

  test('has rows come in as pages come free where that is faster, with the weights where they were planned and what is left for pages', async () => {
    const tight = { hardware: HERE, cpuMemory: process.memoryUsage.rss() + 600 * 2 ** 20 };
    const { report: plan, options, streams, request } = await planned(tight);
    expect(streams).toBe(true);
    expect(plan.predicted?.fits).toBe(true);
    expect(request && plan.policy && settingOf(request, plan.policy).setting.workload.cachePages).toBeGreaterThan(0);
    expect(options.weights).toEqual({ cpu: plan.policy?.weights.cpu, disk: plan.policy?.weights.disk });
    const { report: zigzag } = await planned({ ...tight, schedule: 'zigzag', cache: { cpu: 1, disk: 0 } });
    expect(plan.predicted?.tokensPerSecond).toBeGreaterThan(zigzag.predicted?.tokensPerSecond ?? Infinity);
  });

  test('a model that is repacked already takes no more of the disk', async () => {
    // Far more than any disk has free.
    const model: ModelSource = {
      ...LARGE,
      bindings: LARGE.bindings.map((binding) => (binding.layer < 0 ? binding : { ...binding, columns: 2 ** 30 })),
    };
    const tight = { hardware: HERE, cpuMemory: '8192GiB' };
    expect((await planned(tight, { model })).report).toMatchObject({
      origin: 'default',
      why: expect.stringMatching(/^no plan fits the memory and the disk: found \d+.* and \d+.* free$/),
    });
    const { report } = await planned(tight, { model, repackedBytes: 2 ** 47 });
    expect(report.origin).toBe('auto');
    expect(report.policy?.weights.disk).toBeGreaterThan(0);
  });

  test('writes to disk only where that is faster', async () => {
    const gains: { gain: number; writes: boolean }[] = [];
    for (const mib of [700, 900, 1300]) {
      const { report: plan, request } = await planned(
        { hardware: HERE, tokensPerSquare: 128, cpuMemory: process.memoryUsage.rss() + mib * 2 ** 20 },
        { expected: { promptTokens: 512, newTokens: 128 } },
      );
      if (!request) throw new Error('no plan');
      const { predicted, readsOnly } = choosePolicy(request);
      gains.push({
        gain: predicted.tokensPerSecond / (readsOnly?.predicted.tokensPerSecond ?? 0),
        writes: (plan.policy?.cache.disk ?? 0) > 0,
      });
    }
    expect(new Set(gains.map(({ writes }) => writes)).size).toBe(2);
    for (const { gain, writes } of gains) expect(writes).toBe(gain >= 1.03);
  });

  test('takes smaller squares where that is what makes it fit', async () => {
    // Working memory of 512 tokens alone is more than what is left beside embeddings and two layers.
    const { report: plan } = await planned({ hardware: HERE, cpuMemory: process.memoryUsage.rss() + 400 * 2 ** 20 });
    expect(plan.origin).toBe('auto');
    expect(plan.policy?.tokensPerSquare).toBeLessThan(512);
    expect(plan.policy?.batchSize).toBeLessThanOrEqual(plan.policy?.tokensPerSquare ?? 0);
  });

  test('leaves what the caller says: blocks, schedule, threads, placements', async () => {
    const asked = { batchSize: 7, batches: 3, schedule: 'zigzag', threads: 1, tokensPerSquare: 100 } as const;
    expect((await planned({ hardware: HERE, ...asked })).options).toMatchObject(asked);
    const { report: plan, options } = await planned({ hardware: HERE, cache: { cpu: 0.5, disk: 0.5 } });
    expect(options.cache).toEqual({ cpu: 0.5, disk: 0.5 });
    expect(plan.policy).toMatchObject({ cache: { disk: 0.5 }, weights: { disk: 0 } });
  });

  test('compresses only where that is allowed, and recommends it elsewhere', async () => {
    const slow: HardwareProfile = { ...HERE, links: { ...HERE.links, diskReadBytesPerSecond: 1e8 } };
    const tight = { hardware: slow, cpuMemory: process.memoryUsage.rss() + 500 * 2 ** 20 };
    const { report: plan, options } = await planned(tight);
    expect(options).toMatchObject({ compressWeights: 'none', compressCache: 'none' });
    expect(plan.recommended?.map(({ change, changesResults }) => [change, changesResults])).toContainEqual([
      '4-bit weights',
      true,
    ]);
    const allowed = await planned({ ...tight, compressWeights: 'auto' });
    expect(allowed.options.compressWeights).toBe('4bit');
    expect(allowed.report.predicted?.tokensPerSecond).toBeGreaterThan(
      (plan.predicted?.tokensPerSecond ?? Infinity) * 1.2,
    );
    const unpacked = await planned({ ...tight, ...ONE_BLOCK, compressWeights: 'none' });
    expect(unpacked.options.compressWeights).toBe('none');
  });

  test('stays with the defaults where a plan is hardly faster', async () => {
    const flat: HardwareProfile = {
      ...HERE,
      cpu: {
        ...HERE.cpu,
        matmul: [
          { weights: 'q8', tokens: 1, flopsPerSecond: 1e11 },
          { weights: 'q8', tokens: 256, flopsPerSecond: 1e11 },
        ],
        taskSeconds: 0,
      },
    };
    expect((await planned({ hardware: flat })).report.policy).toMatchObject({
      schedule: 'diagonal',
      batchSize: 64,
      batches: 1,
    });
    // Every row has a token in a square.
    const small = await planned({ hardware: flat, tokensPerSquare: 16 });
    expect(small.report.policy).toMatchObject({ batchSize: 16, tokensPerSquare: 16 });
  });

  test('is not made for work that is too small to be measured for, nor by anybody who asks for the defaults', async () => {
    expect((await planned({}, { model: TINY })).report).toEqual({ origin: 'default' });
    expect((await planned({}, { expected: { ...MANY, rows: 2 } })).report).toEqual({ origin: 'default' });
    expect((await planned({ policy: 'default' })).report).toEqual({ origin: 'default' });
    expect((await planned({ precision: 'float32', hardware: HERE })).report.why).toContain('float32');
  });

  test('measures this machine where it pays; if that fails the defaults stay, with the reason', async () => {
    let calls = 0;
    const profileOf = (): Promise<HardwareProfile> => Promise.resolve(((calls += 1), HERE));
    expect((await planned({}, { profileOf })).report.origin).toBe('auto');
    expect(calls).toBe(1);
    const { report: plan, options } = await planned(
      {},
      { profileOf: () => Promise.reject(new UsageError('no clock')) },
    );
    expect(plan).toEqual({ origin: 'default', why: 'no clock' });
    expect(options.batchSize).toBeUndefined();
    await expect(planned({}, { profileOf: () => Promise.reject(new InterruptedError('stop')) })).rejects.toThrow(
      InterruptedError,
    );
    await expect(planned({}, { profileOf: () => Promise.reject(new TypeError('a mistake of ours')) })).rejects.toThrow(
      TypeError,
    );
  });

  test('is for the speed that the machine has now, not for that of its profile', async () => {
    const profileOf = (): Promise<HardwareProfile> => Promise.resolve(HERE);
    const usual = await planned({}, { profileOf });
    const slow: MachineSpeed = { memory: 0.5, fewRows: 0.5, manyRows: 0.5 };
    const { report: plan, request } = await planned({}, { profileOf, speed: slow });
    expect(plan.machineSpeed).toEqual(slow);
    expect(plan.predicted?.tokensPerSecond).toBeCloseTo((usual.report.predicted?.tokensPerSecond ?? 0) / 2, 0);
    expect(request?.hardware.cpu.memoryBytesPerSecond).toBe(HERE.cpu.memoryBytesPerSecond / 2);
    // What is given is taken at its word.
    expect((await planned({ ...ONE_BLOCK, hardware: HERE }, { speed: slow })).report).not.toHaveProperty(
      'machineSpeed',
    );
  });

  test('asks for what a plan of this model needs; what was measured just now is not looked at again', async () => {
    const asked: ProfileOptions[] = [];
    const profileOf = (options: ProfileOptions = {}): Promise<HardwareProfile> => {
      asked.push(options);
      return Promise.resolve(HERE);
    };
    const slow: MachineSpeed = { memory: 0.5, fewRows: 0.5, manyRows: 0.5 };
    const told: unknown[] = [];
    const { report } = await planned(
      { onProfile: (progress) => told.push(progress) },
      {
        profileOf: (options) => {
          options?.onProgress?.({ done: 0, total: 1, what: 'memory' });
          return profileOf(options);
        },
        speed: slow,
      },
    );
    expect([report.origin, report.machineSpeed, told.length]).toEqual(['auto', undefined, 1]);
    await planned({ ...ONE_BLOCK, compressWeights: 'auto' }, { profileOf });
    const scarce = { compressWeights: '8bit', cpuMemory: process.memoryUsage.rss() + 600 * 2 ** 20 } as const;
    await planned({ ...ONE_BLOCK, ...scarce }, { profileOf });
    await planned({ ...ONE_BLOCK, instructionSet: 'scalar' }, { profileOf });
    // Its weights are Q8_0; of 4 bits the advice speaks. Other instruction sets are in a whole profile.
    const few = ['q8', 'q4'];
    expect(asked.map(({ weights }) => weights)).toEqual([
      few,
      few,
      few,
      machine.instructionSets.at(-1) === 'scalar' ? few : undefined,
    ]);
    expect(asked.map(({ diskBytes }) => diskBytes)).toEqual([0, 0, undefined, 0]);
    // One layer in two is kept more precisely, as llama.cpp does for Q4_K_M; so is the head.
    const mixed: ModelSource = {
      ...LARGE,
      bindings: LARGE.bindings.map((each) => ({ ...each, type: each.layer % 2 === 0 ? 'Q4_K' : 'Q6_K' })),
    };
    await planned(ONE_BLOCK, { profileOf, model: mixed });
    expect(asked.at(-1)?.weights).toEqual(['q4_k', 'q6_k', 'q4']);
  });

  test('the disk is looked at where a plan may use it', async () => {
    const looked: (string | undefined)[] = [];
    const profileOf = (): Promise<HardwareProfile> => Promise.resolve(HERE);
    for (const more of [
      {},
      { cpuMemory: process.memoryUsage.rss() + 600 * 2 ** 20 },
      { weights: { cpu: 0.5, disk: 0.5 } },
      { cache: { cpu: 0, disk: 1 } },
    ]) {
      const options: EngineOptions = {
        ...{ ...ONE_BLOCK, model: LARGE.path, cpuMemory: '64GiB', disk: '/somewhere' },
        ...more,
      };
      await planEngine(LARGE, requestedOptions(options, { ...machine, availableBytes: 2 ** 37 }), machine, MANY, {
        profileOf,
        speedOf: (_, disk) => {
          looked.push(disk);
          return Promise.resolve(AS_EVER);
        },
      });
    }
    expect(looked).toEqual([undefined, '/somewhere', '/somewhere', '/somewhere']);
  });

  test('a job of no rows, however long they would be, is not worth measuring the machine for', async () => {
    expect((await planned({}, { expected: { ...MANY, rows: 0 } })).report).toEqual({ origin: 'default' });
    await expect(planned({}, { expected: MANY })).rejects.toThrow('must not be measured');
  });

  test('where nothing fits by the model, the defaults stay: whoever opens the engine says what is missing', async () => {
    const { report: plan } = await planned({ hardware: HERE, cpuMemory: '1MiB' });
    expect(plan).toMatchObject({
      origin: 'default',
      why: expect.stringContaining('no plan fits the memory and the disk'),
    });
  });

  test('given as a policy: followed, what is said beside it overrides it', async () => {
    const policy = parsePolicy(
      {
        schedule: 'zigzag',
        batchSize: 5,
        batches: 2,
        cache: { cpu: 0.25, disk: 0.75 },
        compressCache: '8bit',
        threads: 2,
      },
      'test',
    );
    const { report: plan, options } = await planned({ hardware: HERE, policy, batches: 4 });
    expect(plan.origin).toBe('policy');
    expect(options).toMatchObject({
      schedule: 'zigzag',
      batchSize: 5,
      batches: 4,
      cache: { cpu: 0.25, disk: 0.75 },
      compressCache: '8bit',
      threads: 2,
      weights: { cpu: 1, disk: 0 },
    });
    await expect(
      planned({ hardware: HERE, policy: { ...policy, weights: { gpu: 1, cpu: 0, disk: 0 } } }),
    ).rejects.toThrow('policy: found weights.gpu 1');
  });

  test('keeps a bound on the latency of a block, with the throughput that that leaves', async () => {
    const { report: free, request } = await planned({ hardware: HERE });
    if (!request || !free.policy || !free.predicted) throw new Error('nothing planned');
    const without = blockSecondsOf(request, free.policy);
    const { report, options } = await planned({ hardware: HERE, maxLatency: without / 4 });
    expect(report.origin).toBe('auto');
    expect(report.predicted?.latencySeconds).toBeLessThanOrEqual(without / 4);
    expect(report.predicted?.tokensPerSecond).toBeLessThan(free.predicted.tokensPerSecond);
    expect(options.batchSize).toBe(report.policy?.batchSize);
    // Also the defaults, where they keep it, and placements that somebody has settled.
    const usual = await planned({ hardware: HERE, maxLatency: 1e6, cpuMemory: '64GiB' });
    expect(usual.report.predicted?.latencySeconds).toBeLessThan(1e6);
    const cache = { cpu: 1, disk: 0 };
    const settled = await planned({ hardware: HERE, maxLatency: without / 4, cache });
    expect(settled.report.predicted?.latencySeconds).toBeLessThanOrEqual(without / 4);
    // Work that is too little to be measured for is planned for all the same.
    const tiny = await planned({ maxLatency: 1e3 }, { model: TINY, profileOf: () => Promise.resolve(HERE) });
    expect(tiny.report.predicted?.latencySeconds).toBeLessThan(1e3);
  });

  test('refuses a bound that no block keeps, and one where nothing is planned', async () => {
    await expect(planned({ hardware: HERE, maxLatency: 1e-6 })).rejects.toThrow(
      /^maxLatency: found 0\.000001, expected at least [\d.]+ seconds, the least that any block takes$/,
    );
    for (const [options, words] of [
      [{ policy: 'default' }, 'expected policy auto beside it: it says what a plan is searched for, and with policy'],
      [
        { policy: parsePolicy({}, 'test') },
        'expected policy auto beside it: it says what a plan is searched for, and a',
      ],
      [{ layers: { first: 0, count: 11 } }, 'but nothing can be planned to keep it: engines that share a model agree'],
      [{ precision: 'float32', hardware: HERE }, 'but nothing can be planned to keep it: precision float32 is for'],
      [{ cpuMemory: 1 }, 'but nothing can be planned to keep it: no plan fits the memory'],
    ] as const)
      await expect(planned({ hardware: HERE, maxLatency: 5, ...options })).rejects.toThrow(
        `maxLatency: found 5, ${words}`,
      );
    const failing = () => Promise.reject(new NativeError('it is too hot'));
    await expect(planned({ maxLatency: 5 }, { profileOf: failing })).rejects.toThrow('to keep it: it is too hot');
  });

  test('refuses a profile of another machine', async () => {
    await expect(planned({ hardware: CPU_MACHINE })).rejects.toThrow(
      'is of another machine: its processor is a processor of tests',
    );
  });
});

test('a machine of more processors than an engine may have threads gets as many as it may', () => {
  expect(settle({ model: LARGE.path }, { ...machine, processors: 1500 }).block.threads).toBe(1024);
});

describe('with a GPU', () => {
  const gpus = [
    { name: 'A GPU', memoryBytes: 16 * 2 ** 30, computeCapability: '7.5', multiprocessors: 40, driver: '12.4' },
  ];
  const withGpu: MachineFacts = { ...machine, gpus };
  const T4 = builtIn('flexgen-t4');
  const there: HardwareProfile = { ...T4, machine: HERE.machine };
  const settled = (more: Partial<EngineOptions>): Settings =>
    settle({ model: LARGE.path, cpuMemory: '4GiB', gpuMemory: '2GiB', ...more }, withGpu);
  type ProfileOf = (options: ProfileOptions) => Promise<HardwareProfile>;
  const unmeasured: ProfileOf = () => Promise.reject(new Error('this machine must not be measured here'));
  const plannedHere = async (more: Partial<EngineOptions>, profileOf = unmeasured, expected = MANY): Promise<Plan> => {
    const options: EngineOptions = { model: LARGE.path, cpuMemory: '4GiB', gpuMemory: '2GiB', ...more };
    return planEngine(LARGE, requestedOptions(options, withGpu), withGpu, expected, {
      profileOf,
      speedOf: () => Promise.resolve(AS_EVER),
    });
  };

  test('that nobody has measured nothing is planned, and the plan says so', async () => {
    const cases: [Partial<EngineOptions>, ProfileOf, ExpectedRows, string][] = [
      [{ hardware: HERE }, unmeasured, MANY, 'the GPU of this machine has not been measured'],
      [{}, () => Promise.resolve(HERE), MANY, 'the GPU of this machine has not been measured'],
      [
        {},
        unmeasured,
        { ...MANY, rows: 2 },
        'too little work to measure the GPU of this machine for: what fits is put on it',
      ],
      [{}, () => Promise.reject(new UsageError('gpuMemory: too little')), MANY, 'gpuMemory: too little'],
    ];
    for (const [more, profileOf, expected, why] of cases) {
      const { report: plan, options, learning } = await plannedHere(more, profileOf, expected);
      expect(plan).toMatchObject({ origin: 'default', why: expect.stringContaining(why) as unknown });
      expect(options.weights).toBeUndefined();
      expect(learning).toBeUndefined();
    }
  });

  test('it is measured with as much as may be used, and what runs take is kept for that machine', async () => {
    const asked: ProfileOptions[] = [];
    const { report: plan, learning } = await plannedHere({ batchSize: 16, batches: 2 }, (options) => {
      asked.push(options);
      return Promise.resolve(there);
    });
    expect(asked).toEqual([expect.objectContaining({ gpuMemory: 2 * 2 ** 30 })]);
    expect(plan).toMatchObject({ origin: 'auto', predicted: { fits: true } });
    expect(learning?.options.gpuMemory).toBe(2 * 2 ** 30);
    expect(learning?.profile.gpu).toEqual(T4.gpu);
    const library = await plannedHere({ batchSize: 16, batches: 2, gpuProducts: 'cublaslt' }, () =>
      Promise.resolve({ ...there, corrections: { 'link.up': 0.2 } }),
    );
    expect(library.learning).toBeUndefined();
    expect(library.request?.hardware.corrections).toBeUndefined();
    expect(library.request?.hardware.memory.gpuBytes).toBe(2 * 2 ** 30 - 96 * 2 ** 20);
  });

  test('a profile of another GPU is refused', async () => {
    await expect(
      plannedHere({ hardware: { ...there, machine: { ...there.machine, gpuName: 'Another' } } }),
    ).rejects.toThrow("its GPU is Another, this machine's A GPU");
    expect(
      (
        await plannedHere({
          batchSize: 16,
          batches: 2,
          hardware: { ...there, machine: { ...there.machine, gpuName: 'A GPU' } },
        })
      ).report.origin,
    ).toBe('auto');
  });

  test('under the model the plan is no slower than what fits put on the GPU, whatever that holds', async () => {
    for (const gpuMemory of tries(1, 3) === 3 ? ['512MiB', '2GiB', '8GiB'] : ['2GiB']) {
      const { report: plan, request } = await plannedHere({ hardware: there, gpuMemory, batchSize: 64 });
      if (!request) throw new Error('no request');
      const all = { gpu: 1, cpu: 0, disk: 0 };
      // As planGpu divides the cap: the cache of a full block first where weights do not all fit, else weights.
      const usual = [0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1].flatMap((gpu) =>
        [0, 0.5, 1].map((cached) =>
          predict(
            request,
            parsePolicy(
              {
                schedule: 'diagonal',
                batchSize: 64,
                batches: 1,
                weights: { gpu, cpu: 1 - gpu, disk: 0 },
                cache: { gpu: cached, cpu: 1 - cached, disk: 0 },
                activations: all,
                cpuAttention: true,
              },
              'test',
            ),
          ),
        ),
      );
      const fitting = usual.filter(({ fits }) => fits);
      expect(fitting.length).toBeGreaterThan(0);
      // Shares are rounded to what placement can do.
      for (const each of fitting) expect(plan.predicted?.tokensPerSecond).toBeGreaterThan(each.tokensPerSecond * 0.98);
    }
  });

  test('that was measured the plan is for three tiers, within the cap', async () => {
    const { report: plan, options, request } = await plannedHere({ hardware: there });
    expect(plan).toMatchObject({ origin: 'auto', predicted: { fits: true } });
    expect(request?.hardware.memory.gpuBytes).toBe(2 * 2 ** 30);
    expect(plan.predicted?.memoryBytes.gpu).toBeLessThanOrEqual(2 * 2 ** 30);
    expect(plan.predicted?.queueSeconds).toHaveProperty('gpu-compute');
    expect(options.cache).toEqual(plan.policy?.cache);
    expect(options.cpuAttention).toBe(plan.policy?.cpuAttention);
    // As much of the weights as fits is found when the engine is opened.
    expect(options.weights).toBeUndefined();
    expect(settled(options).memory.gpu?.cacheShare).toBe(plan.policy?.cache.gpu);
  });

  test('a policy is followed, hidden states in part on the GPU leave it', async () => {
    const shares = { weights: { gpu: 0.2, cpu: 0.3, disk: 0.5 }, cache: { gpu: 0.5, cpu: 0.5, disk: 0 } };
    const policy = parsePolicy(
      { batchSize: 4, batches: 2, ...shares, activations: { gpu: 0.5, cpu: 0.25, disk: 0.25 } },
      'test',
    );
    const { report: plan, options } = await plannedHere({ policy }, () => Promise.resolve(there));
    expect(plan.origin).toBe('policy');
    expect(options).toMatchObject({ ...shares, activations: { gpu: 0.5, cpu: 0.25, disk: 0.25 } });
    expect(settled(options).memory).toMatchObject({
      gpu: { weightShare: 0.2, cacheShare: 0.5, activationShare: 0.5 },
      weightShare: expect.closeTo(0.375, 9) as unknown,
      activationsOnDisk: 0.25,
    });
    expect(settled(options).memory.gpu?.hostShare).toBe(1);
    const fetching = await plannedHere({ policy: { ...policy, cpuAttention: false } }, () => Promise.resolve(there));
    expect(settled(fetching.options).memory.gpu).toMatchObject({ cacheShare: 0.5, hostShare: 0 });
  });

  test('what cannot be is refused: no GPU, more than it has, contradictions, shares', () => {
    const refused =
      (more: Partial<EngineOptions>, facts = withGpu): (() => Settings) =>
      () =>
        settle(checkEngineOptions({ model: LARGE.path, ...more }), facts);
    expect(refused({ gpuMemory: '2GiB' }, { ...machine, gpus: [] })).toThrow(
      'gpuMemory: found 2 GiB, but there is no GPU here',
    );
    expect(refused({ gpuMemory: '17GiB' })).toThrow('gpuMemory: found 17 GiB, expected at most the 16 GiB of A GPU');
    expect(refused({ gpuMemory: '1GiB', device: 'cpu' })).toThrow('beside device "cpu"');
    expect(refused({ device: 'cuda' })).toThrow('device: found "cuda" without `gpuMemory`');
    expect(refused({ device: 'cuda' }, { ...machine, gpus: [] })).toThrow(
      'device: found "cuda", but there is no GPU here',
    );
    expect(refused({ gpuMemory: 'much' })).toThrow(UsageError);
    expect(refused({ gpuProducts: 'cublaslt', gpuMemory: 0 })).toThrow(
      'gpuProducts: found "cublaslt" without `gpuMemory`',
    );
    expect(refused({ gpuMemory: '1GiB', gpuProducts: 'cublas' as 'cublaslt' })).toThrow(
      'gpuProducts: found "cublas", expected one of own, cublaslt, auto',
    );
    expect(settled({}).memory.gpu?.products).toBe('own');
    expect(settled({ gpuProducts: 'auto' }).memory.gpu?.products).toBe('auto');
    expect(refused({ weights: { gpu: 0.5, cpu: 0.5, disk: 0 } })).toThrow(
      'weights: found gpu 0.5, expected 0 without `gpuMemory`',
    );
    const gpuMemory = '1GiB';
    expect(refused({ gpuMemory, cache: { gpu: 0.5, cpu: 0.6, disk: 0 } })).toThrow(
      'expected shares gpu, cpu and disk that sum to 1',
    );
    expect(refused({ gpuMemory, activations: { gpu: 0.5, cpu: 0.6, disk: 0 } })).toThrow('activations: found');
    expect(settle({ model: LARGE.path, gpuMemory: 0 }, { ...machine, gpus: [] }).memory.gpu).toBeUndefined();
    expect(settle({ model: LARGE.path, gpuMemory: '0' }, { ...machine, gpus: [] }).memory.gpu).toBeUndefined();
    expect(
      settled({ device: 'cuda', compressCache: '8bit', sparseAttention: 0.1, cache: { gpu: 0.5, cpu: 0.5, disk: 0 } })
        .memory.gpu,
    ).toMatchObject({ cacheShare: 0.5, activationShare: 1 });
  });
});

describe('what earlier runs taught', () => {
  const corrections = { 'compute.decode.q8.64': 1.5, 'compute.prefill.q8.256': 1.5 };
  const learnt = (): Promise<HardwareProfile> => Promise.resolve({ ...HERE, corrections });

  test('is in the plan and its predictions, and later runs are kept for the profile as it was measured', async () => {
    const plain = await planned({}, { profileOf: () => Promise.resolve(HERE) });
    const {
      report: plan,
      request,
      learning,
    } = await planned({}, { profileOf: learnt, speed: { memory: 1, fewRows: 0.5, manyRows: 0.5 } });
    expect(request?.hardware.corrections).toEqual(corrections);
    expect(plan.predicted?.tokensPerSecond).toBeLessThan((plain.report.predicted?.tokensPerSecond ?? 0) / 1.5);
    expect(learning?.profile).toEqual(HERE);
    expect(plan).not.toHaveProperty('notes');
  });

  test('is neither used nor added to where that is off, and not added to by a hardware profile that is given or the default policy', async () => {
    const off = await planned({ ...ONE_BLOCK, learn: false }, { profileOf: learnt });
    expect([off.request?.hardware.corrections, off.learning]).toEqual([undefined, undefined]);
    const given = await planned({ ...ONE_BLOCK, hardware: { ...HERE, corrections } });
    expect(given.request?.hardware.corrections).toEqual(corrections);
    expect(given.learning).toBeUndefined();
    expect((await planned({ policy: 'default' }, { profileOf: learnt })).learning).toBeUndefined();
  });

  test('and cannot be used is said', async () => {
    const noted = await planned(ONE_BLOCK, {
      profileOf: (options) => {
        options?.onNote?.('damaged');
        return Promise.resolve(HERE);
      },
    });
    expect(noted.report.notes).toEqual(['damaged']);
  });
});
