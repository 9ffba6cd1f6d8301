import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { type BlockCost, type CostModel, type CostModelName } from '../../src/plan/CostModel.js';
import { costModelOf } from '../../src/plan/costModels.js';
import { parseHardware, type HardwareProfile } from '../../src/plan/HardwareProfile.js';
import { requireKnownShape } from '../../src/plan/knownShapes.js';
import { predict, settingOf } from '../../src/plan/predict.js';
import type { ModelShape } from '../../src/plan/ModelShape.js';
import { slotsOf, type Policy } from '../../src/plan/Policy.js';
import { choosePolicy } from '../../src/plan/search/choosePolicy.js';
import { tries } from '../support/tries.js';
import { builtIn, CPU_MACHINE, flexgenPolicy } from './support/hardware.js';

const GIB = 2 ** 30;
const A100 = builtIn('lm-offload-a100');
const T4 = builtIn('flexgen-t4');

/** A machine with a GPU, and what its parts give at most. */
const withGpu = fc
  .record({
    gpuGib: fc.integer({ min: 8, max: 80 }),
    cpuGib: fc.integer({ min: 64, max: 256 }),
    link: fc.double({ min: 2e9, max: 6e10, noNaN: true }),
    memory: fc.double({ min: 2e11, max: 4e12, noNaN: true }),
    flops: fc.double({ min: 2e13, max: 1e15, noNaN: true }),
    disk: fc.option(fc.double({ min: 2e8, max: 6e9, noNaN: true }), { nil: undefined }),
    // Constants of the papers' models that promise more than the machine's own figures, or less.
    hope: fc.double({ min: 0.2, max: 50, noNaN: true }),
    // As a profile has it, few rows are bound by memory; a file by hand may say otherwise.
    profiled: fc.boolean(),
  })
  .map(({ gpuGib, cpuGib, link, memory, flops, disk, hope, profiled }): HardwareProfile => {
    const { gpu, lmOffload } = A100;
    const { flexgen } = T4;
    if (!gpu || !lmOffload || !flexgen) throw new Error('no GPU');
    return {
      ...A100,
      memory: { gpuBytes: gpuGib * GIB, cpuBytes: cpuGib * GIB, diskBytes: disk === undefined ? 0 : 4e11 },
      links: {
        hostToDeviceBytesPerSecond: link,
        deviceToHostBytesPerSecond: link,
        diskReadBytesPerSecond: disk,
        diskWriteBytesPerSecond: disk,
      },
      gpu: {
        ...gpu,
        matmul: [1, 64, 512].map((tokens) => ({
          weights: 'f16',
          tokens,
          flopsPerSecond: profiled ? Math.min(flops, tokens * memory) : flops,
        })),
        memoryBytesPerSecond: memory,
      },
      flexgen: hopeful(flexgen, hope),
      lmOffload: { ...hopeful(lmOffload, hope), gpuEfficiency: 0.5 },
    };
  });

/** Speeds times a factor. */
function hopeful<Constants extends object>(constants: Constants, factor: number): Constants {
  return Object.fromEntries(
    Object.entries(constants).map(([name, value]) => [
      name,
      name.endsWith('PerSecond') ? (value as number) * factor : (value as number),
    ]),
  ) as Constants;
}

/** A machine without one. */
const withoutGpu = fc
  .record({
    cpuGib: fc.integer({ min: 4, max: 64 }),
    disk: fc.double({ min: 2e8, max: 6e9, noNaN: true }),
    memory: fc.double({ min: 1e10, max: 3e11, noNaN: true }),
    flops: fc.double({ min: 5e10, max: 4e12, noNaN: true }),
  })
  .map(({ cpuGib, disk, memory, flops }) =>
    parseHardware(
      {
        format: 'spillway-hardware-1',
        name: 'drawn',
        machine: {},
        memory: { gpuBytes: 0, cpuBytes: cpuGib * GIB, diskBytes: 4e11 },
        links: { diskReadBytesPerSecond: disk, diskWriteBytesPerSecond: disk },
        cpu: {
          threads: 4,
          // One row is bound by memory, as on real machines.
          matmul: [
            { weights: 'f16', tokens: 1, flopsPerSecond: Math.min(flops, memory) },
            { weights: 'f16', tokens: 64, flopsPerSecond: flops },
          ],
          attention: { prefillFlopsPerSecond: flops, decodeBytesPerSecond: memory },
          memoryBytesPerSecond: memory,
          quantiseValuesPerSecond: 1e9,
          dequantiseValuesPerSecond: 2e9,
        },
      },
      'drawn',
    ),
  );

const shapes = fc.constantFrom('opt-1.3b', 'opt-6.7b', 'opt-13b', 'llama-3-8b', 'opt-30b').map(requireKnownShape);
const workload = fc.record({
  promptTokens: fc.integer({ min: 1, max: 500 }),
  newTokens: fc.integer({ min: 2, max: 256 }),
});

/** Parameters that multiply a hidden state, of all layers. */
function parameters({ hiddenSize: h1, feedForwardSize: h2, feedForwardMatrices, layers, heads, kvHeads }: ModelShape) {
  return layers * (h1 * h1 * (2 + (2 * kvHeads) / heads) + feedForwardMatrices * h1 * h2);
}

/**
 * Seconds in which no machine makes the new tokens of a block, whatever overlaps: weights are read once a step at
 * least, for the batches may share what is in a cache.
 */
function leastSeconds(
  hardware: HardwareProfile,
  shape: ModelShape,
  policy: Policy,
  { promptTokens, newTokens }: { readonly promptTokens: number; readonly newTokens: number },
): number {
  const { links, cpu, gpu, memory } = hardware;
  const values = parameters(shape);
  const { weights, cache } = policy;
  const rows = policy.batchSize * slotsOf(policy);
  const onGpu = memory.gpuBytes > 0;
  const on = onGpu && gpu ? gpu : cpu;
  const most = Math.max(...on.matmul.map(({ flopsPerSecond }) => flopsPerSecond));
  const cached = rows * shape.layers * 4 * shape.kvHeads * shape.headDim;
  const attended = cached * ((newTokens - 1) * promptTokens + ((newTokens - 1) * (newTokens - 2)) / 2);
  return Math.max(
    (2 * values * rows * (promptTokens + newTokens - 1)) / most,
    (2 * values * newTokens) / on.memoryBytesPerSecond,
    onGpu ? (2 * values * newTokens * (1 - weights.gpu)) / (links.hostToDeviceBytesPerSecond ?? Infinity) : 0,
    onGpu && policy.cpuAttention === false
      ? (attended * (1 - cache.gpu)) / (links.hostToDeviceBytesPerSecond ?? Infinity)
      : 0,
    weights.disk > 0 ? (2 * values * newTokens * weights.disk) / (links.diskReadBytesPerSecond ?? Infinity) : 0,
    cache.disk > 0 ? (attended * cache.disk) / (links.diskReadBytesPerSecond ?? Infinity) : 0,
  );
}

/** One of one's own that believes in nothing but memory. */
class Believer implements CostModel {
  readonly name = 'believer';
  readonly schedules = ['zigzag'] as const;
  shareStep = (): { weights: number; cache: number; activations: number } => ({ weights: 0, cache: 0, activations: 0 });
  blocks({ shape, workload, block }: Parameters<CostModel['blockAt']>[0]): BlockCost[] {
    const rows = block.batchSize * block.batches;
    const bytes = shape.layerWeightBytes * shape.layers;
    const term = { constant: 1e-15, wc: 1e-15 };
    return [
      {
        phases: [{ name: 'all', times: workload.newTokens, queues: { hope: term }, bounds: [term], promptShare: 0.25 }],
        memory: [
          { tier: 'gpu', when: 'always', bytes: { wg: bytes } },
          { tier: 'cpu', when: 'always', bytes: { wc: bytes } },
          { tier: 'disk', when: 'always', bytes: { wn: bytes } },
        ],
        fixed: {},
        newTokens: rows * workload.newTokens,
        rows,
        onceSeconds: 0,
      },
    ];
  }
  blockAt(setting: Parameters<CostModel['blockAt']>[0]): BlockCost {
    const [cost] = this.blocks(setting);
    if (!cost) throw new Error('no cost');
    return cost;
  }
}

describe('no model promises what a machine cannot do', () => {
  const own = new Believer();
  const cases: readonly (readonly [CostModelName | CostModel, string, fc.Arbitrary<HardwareProfile>])[] = [
    ['spillway', 'with a GPU', withGpu],
    ['flexgen', 'with a GPU', withGpu],
    ['flexgen-paper', 'with a GPU', withGpu],
    ['lm-offload', 'with a GPU', withGpu],
    [own, 'with a GPU', withGpu],
    ['spillway', 'without one', withoutGpu],
    [own, 'without one', withoutGpu],
  ];
  test.each(
    cases.map(([costModel, where, machines]) => ({
      name: typeof costModel === 'string' ? costModel : costModel.name,
      where,
      costModel,
      machines,
    })),
  )(
    '$name, drawn machines $where: no plan is faster than its bytes and operations allow',
    ({ costModel, machines }) => {
      let planned = 0;
      fc.assert(
        fc.property(
          machines,
          shapes,
          workload,
          fc.integer({ min: 1, max: 64 }),
          (hardware, shape, work, mostBatchSize) => {
            let plan;
            try {
              plan = choosePolicy({
                hardware,
                shape,
                workload: work,
                costModel,
                allow: { mostBatchSize, mostBatches: 8 },
              });
            } catch (error) {
              expect((error as Error).name).toBe('MemoryBudgetError');
              return;
            }
            planned += 1;
            const { policy, predicted } = plan;
            const rows = policy.batchSize * slotsOf(policy);
            const most = (rows * work.newTokens) / leastSeconds(hardware, shape, policy, work);
            expect(predicted.tokensPerSecond).toBeLessThanOrEqual(most * 1.001);
            expect(predicted.prefillSeconds + predicted.decodeSeconds).toBeCloseTo(predicted.wallSeconds, 6);
            // Nothing is busy for longer than it takes.
            const busiest = Math.max(...Object.values(predicted.queueSeconds));
            if (typeof costModel !== 'string' || !costModel.startsWith('flexgen'))
              expect(busiest).toBeLessThanOrEqual(predicted.wallSeconds * 1.001);
          },
        ),
        { numRuns: tries(20, 500), endOnFailure: true },
      );
      expect(planned).toBeGreaterThan(0);
    },
  );

  test("FlexGen's free reading of weights: 60.8 tokens a second of 6.7B, of which a T4's memory gives 45", () => {
    const shape = requireKnownShape('opt-6.7b');
    const request = {
      hardware: T4,
      shape,
      workload: { promptTokens: 512, newTokens: 32 },
      costModel: 'flexgen' as const,
    };
    const policy = flexgenPolicy(2, 1, [100, 0, 100, 0, 100, 0]);
    const { promisedTokensPerSecond, tokensPerSecond, bottleneck, queueSeconds, wallSeconds, warning } = predict(
      request,
      policy,
    );
    expect(promisedTokensPerSecond).toBeCloseTo(60.85, 1);
    expect(warning).toContain("promises 60.8 tokens/s, more than the machine's gpu-memory allows");
    // Each of 32 steps reads the weights, each of 31 the cache besides.
    const cache = 4 * shape.hiddenSize * shape.layers * 2 * (31 * 512 + (31 * 30) / 2);
    const seconds = (32 * shape.layers * shape.layerWeightBytes + cache) / 300e9;
    expect(tokensPerSecond).toBeCloseTo(64 / seconds, 6);
    expect([bottleneck, queueSeconds['gpu-memory']]).toEqual(['gpu-memory', wallSeconds]);
  });

  test('what is known of a placement is in the program: the search leaves on the disk what can be elsewhere', () => {
    const { policy } = choosePolicy({
      hardware: CPU_MACHINE,
      shape: requireKnownShape('opt-1.3b'),
      workload: { promptTokens: 16, newTokens: 4 },
      costModel: own,
      caps: { cpu: 2 * GIB },
      allow: { mostBatchSize: 1, mostBatches: 1 },
    });
    // The layers are 2.25 GiB.
    expect(policy.weights.cpu).toBeCloseTo((2 * GIB) / (24 * requireKnownShape('opt-1.3b').layerWeightBytes), 2);
  });

  test('memory that was looked at while something else was busy bounds nothing that products were seen to do', () => {
    const busy = { ...CPU_MACHINE, cpu: { ...CPU_MACHINE.cpu, memoryBytesPerSecond: 1e8 } };
    const request = { shape: requireKnownShape('opt-1.3b'), workload: { promptTokens: 16, newTokens: 4 } };
    const policy = flexgenPolicy(1, 1, [0, 100, 0, 100, 0, 100]);
    const of = (hardware: HardwareProfile) => predict({ ...request, hardware, costModel: own }, policy).tokensPerSecond;
    expect(of(busy)).toBeGreaterThan(5);
    expect(of({ ...busy, machine: {} })).toBeLessThan(0.05);
  });

  test('a machine that is faster on a thread for each core is held to what it does on these', () => {
    const { matmul, attention } = CPU_MACHINE.cpu;
    const oneThreadACore = {
      threads: 2,
      matmul: matmul.map((point) => ({ ...point, flopsPerSecond: 2 * point.flopsPerSecond })),
      attention: { ...attention, decodeBytesPerSecond: 2 * attention.decodeBytesPerSecond },
    };
    const cpu = { ...CPU_MACHINE.cpu, threads: 4, memoryBytesPerSecond: 1e8 };
    const policy = flexgenPolicy(1, 1, [0, 100, 0, 100, 0, 100]);
    const floorsOn = (on: HardwareProfile['cpu']) => {
      const request = { shape: requireKnownShape('opt-1.3b'), workload: { promptTokens: 16, newTokens: 4 } };
      const { cost } = settingOf({ ...request, hardware: { ...CPU_MACHINE, cpu: on }, costModel: own }, policy);
      return ['cpu-compute', 'cpu-memory'].map((part) => cost.floors?.[part]?.constant ?? NaN);
    };
    const all = floorsOn(cpu);
    expect(floorsOn({ ...cpu, oneThreadACore })).toEqual(all.map((seconds) => seconds / 2));
  });

  test('what runs taught of a machine may be faster than its profile', () => {
    const request = {
      hardware: CPU_MACHINE,
      shape: requireKnownShape('opt-1.3b'),
      workload: { promptTokens: 16, newTokens: 4 },
      costModel: own,
    };
    const policy = flexgenPolicy(1, 1, [0, 100, 0, 100, 0, 100]);
    const plain = predict(request, policy).tokensPerSecond;
    const corrections = { 'compute.decode.f16.1': 0.5, 'disk.read': 2 };
    expect(predict({ ...request, hardware: { ...CPU_MACHINE, corrections } }, policy).tokensPerSecond).toBeCloseTo(
      2 * plain,
      6,
    );
  });

  test("a model's phases are counted only when asked for", () => {
    let counted = 0;
    const phases =
      new Believer().blocks(
        settingOf(
          { hardware: CPU_MACHINE, shape: requireKnownShape('opt-1.3b'), workload: { promptTokens: 2, newTokens: 2 } },
          flexgenPolicy(1, 1, [0, 100, 0, 100, 0, 100]),
        ).setting,
      )[0]?.phases ?? [];
    const lazy: CostModel = {
      ...own,
      name: 'lazy',
      blocks: (setting) =>
        own
          .blocks(setting)
          .map((cost) =>
            Object.defineProperty({ ...cost }, 'phases', { enumerable: true, get: () => (counted++, phases) }),
          ),
      blockAt: (setting) => own.blockAt(setting),
    };
    const { setting } = settingOf(
      { hardware: CPU_MACHINE, shape: requireKnownShape('opt-1.3b'), workload: { promptTokens: 2, newTokens: 2 } },
      flexgenPolicy(1, 1, [0, 100, 0, 100, 0, 100]),
    );
    const [cost] = costModelOf(lazy).blocks(setting);
    expect(counted).toBe(0);
    expect(cost?.phases).toBe(phases);
    expect(counted).toBe(1);
  });
});
