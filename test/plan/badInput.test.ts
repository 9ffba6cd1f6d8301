import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { chooseBlock, type SettledShares } from '../../src/plan/search/chooseBlock.js';
import { choosePolicy } from '../../src/plan/search/choosePolicy.js';
import { checkSameMachine, parseHardware } from '../../src/plan/HardwareProfile.js';
import { requireKnownShape } from '../../src/plan/knownShapes.js';
import { planDocument } from '../../src/plan/document/planDocument.js';
import type { Allowed, PlanRequest } from '../../src/plan/PlanRequest.js';
import { parsePolicy, type Policy } from '../../src/plan/Policy.js';
import { blockSecondsOf, predict } from '../../src/plan/predict.js';
import { UsageError } from '../../src/errors/UsageError.js';
import { simulatePlan } from '../../src/simulatePlan.js';
import { builtIn, CPU_MACHINE, flexgenPolicy } from './support/hardware.js';

const workload = { promptTokens: 64, newTokens: 16 };
const shape = requireKnownShape('opt-1.3b');
const profile = (change: object): unknown => ({ ...structuredClone(CPU_MACHINE), ...change });

describe('one clear sentence for what makes no sense', () => {
  test.each([
    [
      profile({ links: { diskReadBytesPerSecond: 0, diskWriteBytesPerSecond: 1 } }),
      'links.diskReadBytesPerSecond: found 0, expected a number above 0',
    ],
    [
      profile({ links: {} }),
      'links.diskReadBytesPerSecond: found nothing, expected a value, as memory.diskBytes is not 0',
    ],
    [
      profile({ memory: { gpuBytes: 1e9, cpuBytes: 1e9, diskBytes: 0 } }),
      'gpu: found nothing, expected a value, as memory.gpuBytes is not 0',
    ],
    [profile({ format: 'other' }), 'format: found "other", expected spillway-hardware-1'],
    [profile({ colour: 1 }), 'document: found the unknown field colour, expected only known fields'],
    [profile({ cpu: { ...CPU_MACHINE.cpu, matmul: [] } }), 'cpu.matmul: found [], expected a list of at least 1'],
    ['text', 'document: found "text", expected an object'],
    [undefined, 'document: found nothing, expected an object'],
  ])('hardware %#', (value, sentence) => {
    expect(() => parseHardware(value, 'h.json')).toThrow(`h.json: ${sentence}`);
  });

  test.each([
    [{ batchSize: 0 }, 'batchSize: found 0, expected a number of at least 1'],
    [
      { weights: { gpu: 0.5, cpu: 0.6, disk: 0 } },
      'weights: found {"gpu":0.5,"cpu":0.6,"disk":0}, expected shares gpu, cpu and disk that sum to 1',
    ],
    [{ schedule: 'spiral' }, 'schedule: found "spiral", expected one of row, zigzag, diagonal'],
    [{ batches: 1e9 }, 'batches: found 1000000000, expected a number of at most 256'],
    [{ batches: '4' }, 'batches: found "4", expected a number'],
    [{ batchSize: 1.5 }, 'batchSize: found 1.5, expected a whole number'],
    [{ weights: { cpu: 2 } }, 'weights.cpu: found 2, expected a number from 0 to 1'],
    [{ cache: { cpu: 1, disk: -1 } }, 'cache.disk: found -1, expected a number from 0 to 1'],
    [{ sparseAttention: 0 }, 'sparseAttention: found 0, expected a number above 0'],
    [{ precision: 'double' }, 'precision: found "double", expected one of default, float32'],
    [
      { sparseAttention: 1, instructionSet: 'amx' },
      'document: found the unknown field instructionSet, expected only known fields',
    ],
  ])('policy %#', (value, sentence) => {
    expect(() => parsePolicy(value, 'p.json')).toThrow(`p.json: ${sentence}`);
  });

  test('omitted fields of a policy take defaults', () => {
    expect(parsePolicy({}, 'p.json')).toEqual({
      schedule: 'zigzag',
      batchSize: 1,
      batches: 1,
      weights: { gpu: 0, cpu: 1, disk: 0 },
      cache: { gpu: 0, cpu: 1, disk: 0 },
      activations: { gpu: 0, cpu: 1, disk: 0 },
      compressWeights: 'none',
      compressCache: 'none',
      cpuAttention: true,
    });
  });

  test('contradictory caps, workloads, models, cost models', () => {
    const plan = (more: object): unknown => choosePolicy({ hardware: CPU_MACHINE, shape, workload, ...more });
    expect(() => plan({ caps: { gpu: 1e9 } })).toThrow('hardware "two cores" has no gpu tier');
    expect(() => plan({ caps: { cpu: 0 } })).toThrow('cpu memory: found a cap of 0 bytes');
    expect(() => plan({ caps: { cpu: -1 } })).toThrow(
      'request.caps.cpu: found -1, expected a number of bytes of at least 0',
    );
    expect(() => plan({ workload: { promptTokens: 3000, newTokens: 16 } })).toThrow(
      "but the model's context is 2048 tokens",
    );
    expect(() => plan({ workload: { promptTokens: 0, newTokens: 16 } })).toThrow('promptTokens: found 0');
    expect(() => plan({ costModel: 'none' })).toThrow(
      'request.costModel: found "none", expected one of spillway, flexgen, flexgen-paper, lm-offload, or a cost model of another name',
    );
    expect(() => plan({ costModel: 'flexgen' })).toThrow("has no constants of FlexGen's cost model");
    expect(() => plan({ costModel: 'lm-offload' })).toThrow("has no features for LM-Offload's cost model");
    expect(() => requireKnownShape('opt-3b')).toThrow('model: found "opt-3b", expected one of opt-125m');
  });

  test.each<[unknown, string]>([
    [{ batchSize: -1 }, 'batchSize: found -1, expected a number of at least 1'],
    [{ batchSize: 1.5 }, 'batchSize: found 1.5, expected a whole number'],
    [{ batchSize: 0 }, 'batchSize: found 0, expected a number of at least 1'],
    [{ batchSize: '4' }, 'batchSize: found "4", expected a number'],
    [{ batches: -1 }, 'batches: found -1, expected a number of at least 1'],
    [{ batches: 4n }, 'batches: found 4n, expected a number'],
    [{ batchSize: 1e18 }, 'batchSize: found 1000000000000000000, expected a number of at most 4096'],
    [{ mostBatchSize: NaN }, 'mostBatchSize: found NaN, expected a number'],
    [{ threads: -2 }, 'threads: found -2, expected a number of at least 1'],
    [{ compressWeights: '4bit' }, 'compressWeights: found "4bit", expected a list'],
    [{ compressWeights: ['2bit'] }, 'compressWeights.0: found "2bit", expected one of none, 8bit, 4bit'],
    [{ schedules: [] }, 'schedules: found [], expected a list of at least 1'],
  ])('what is allowed %#', (allow, sentence) => {
    expect(() => choosePolicy({ hardware: CPU_MACHINE, shape, workload, allow: allow as Allowed })).toThrow(
      new UsageError(`request.allow.${sentence}`),
    );
  });

  test('parts of a request that are missing, or too many', () => {
    const refused = (request: object | undefined): unknown => choosePolicy(request as PlanRequest);
    expect(() => refused(undefined)).toThrow(new UsageError('request: found nothing, expected an object'));
    expect(() => refused({ hardware: {}, shape, workload })).toThrow(
      new UsageError('request.hardware.format: found nothing, expected spillway-hardware-1'),
    );
    expect(() => refused({ hardware: CPU_MACHINE, workload })).toThrow(
      new UsageError('request.shape: found nothing, expected an object'),
    );
    expect(() => refused({ hardware: CPU_MACHINE, shape, workload, caps: { cpus: 5 } })).toThrow(
      new UsageError('request.caps: found the unknown field cpus, expected only known fields'),
    );
  });

  test.each<[unknown, string]>([
    [undefined, 'policy: found nothing, expected an object'],
    [null, 'policy: found null, expected an object'],
    [{ batchSize: 0 }, 'policy.batchSize: found 0, expected a number of at least 1'],
    [{ cache: { cpu: 0.5 } }, 'policy.cache: found {"cpu":0.5}, expected shares gpu, cpu and disk that sum to 1'],
  ])('a policy that is none %#', async (policy, sentence) => {
    const request = { hardware: CPU_MACHINE, shape, workload };
    expect(() => predict(request, policy as Policy)).toThrow(new UsageError(sentence));
    await expect(simulatePlan(request, policy as Policy)).rejects.toThrow(new UsageError(sentence));
    if (policy !== undefined) expect(() => planDocument(request, policy as Policy)).toThrow(new UsageError(sentence));
  });

  test('shares that are none', () => {
    const request = { hardware: CPU_MACHINE, shape, workload };
    expect(() => chooseBlock(request, undefined as unknown as SettledShares)).toThrow(
      new UsageError('shares: found nothing, expected an object'),
    );
    expect(() =>
      chooseBlock(request, { cache: { gpu: 0, cpu: 2, disk: 0 }, activations: { gpu: 0, cpu: 1, disk: 0 } }),
    ).toThrow(new UsageError('shares.cache.cpu: found 2, expected a number from 0 to 1'));
  });

  test('whatever stands in a field of a request, it is a plan or a UsageError that names the field', () => {
    const base = {
      hardware: { ...CPU_MACHINE, corrections: { 'disk.read': 1.5 } },
      shape,
      workload: { ...workload, rows: 4, cachePages: 64, admittedPerSweep: 0.5 },
      caps: { cpu: 2 ** 33 },
      allow: { batchSize: 4, cpuAttention: [true] },
      costModel: 'spillway',
    };
    const paths = (value: unknown, path: readonly string[]): (readonly string[])[] => [
      ...(path.length > 0 ? [path] : []),
      ...(typeof value === 'object' && value !== null
        ? Object.entries(value).flatMap(([key, each]) => paths(each, [...path, key]))
        : []),
    ];
    const odd = fc.constantFrom<unknown[]>(
      NaN,
      Infinity,
      -1,
      0,
      1.5,
      1e300,
      '4',
      '',
      null,
      [],
      {},
      [null],
      true,
      10n,
      Symbol('s'),
      () => 1,
    );
    const policy = parsePolicy({ schedule: 'diagonal', batchSize: 2, batches: 2 }, 'test');
    fc.assert(
      fc.property(fc.constantFrom(...paths(base, [])), odd, (path, value) => {
        const request = structuredClone(base);
        const parent = path
          .slice(0, -1)
          .reduce<Record<string, unknown>>((at, key) => at[key] as Record<string, unknown>, request);
        parent[path.at(-1) ?? ''] = value;
        try {
          expect(predict(request as PlanRequest, policy).tokensPerSecond).toBeGreaterThan(0);
        } catch (error) {
          expect(error).toBeInstanceOf(UsageError);
          expect((error as Error).message).toMatch(/^(request\.|cpu memory: )\S.*found .*expected /);
        }
      }),
      { numRuns: 400, endOnFailure: true },
    );
  });

  test('a plan that cannot fit names the budget that works, and it does', () => {
    const request = {
      hardware: { ...CPU_MACHINE, memory: { ...CPU_MACHINE.memory, diskBytes: 0 } },
      shape,
      workload,
      caps: { cpu: 2 ** 30 },
    };
    let needed = 0;
    try {
      choosePolicy(request);
    } catch (error) {
      expect(error).toMatchObject({ name: 'MemoryBudgetError', tier: 'cpu' });
      needed = (error as { neededBytes: number }).neededBytes;
    }
    expect(needed).toBeGreaterThan(2 ** 30);
    expect(choosePolicy({ ...request, caps: { cpu: needed } }).predicted.fits).toBe(true);
    expect(() => choosePolicy({ ...request, caps: { cpu: needed * 0.99 } })).toThrow('smallest budget');
  });

  test('a search for one new token a row, as of labels and embeddings, ends in a plan that has a speed', () => {
    for (const gib of [4, 6, 8, 12])
      for (const promptTokens of [64, 512, 1500]) {
        const hardware = { ...CPU_MACHINE, memory: { ...CPU_MACHINE.memory, cpuBytes: gib * 2 ** 30 } };
        const { predicted, runnersUp } = choosePolicy({
          hardware,
          shape: requireKnownShape('opt-6.7b'),
          workload: { promptTokens, newTokens: 1, rows: 5000 },
        });
        for (const plan of [predicted, ...runnersUp.map((each) => each.predicted)]) {
          expect(plan.tokensPerSecond).toBeGreaterThan(0);
          expect(plan.wallSeconds).toBeGreaterThan(0);
        }
      }
  });

  test('where memory is scarce smaller squares are searched as well, and the plan is the best of them', () => {
    const scarce = {
      hardware: { ...CPU_MACHINE, memory: { ...CPU_MACHINE.memory, cpuBytes: 2 ** 31 } },
      shape: requireKnownShape('opt-6.7b'),
      workload: { promptTokens: 512, newTokens: 128, rows: 1000 },
      caps: { cpu: 1.6e9 },
    };
    const { policy, predicted } = choosePolicy(scarce);
    const at = (tokensPerSquare: number): number =>
      choosePolicy({ ...scarce, allow: { tokensPerSquare } }).predicted.tokensPerSecond;
    expect(policy.tokensPerSquare).toBeLessThan(512);
    expect(predicted.tokensPerSecond).toBe(Math.max(at(128), at(48)));
    expect(predicted.tokensPerSecond).toBeGreaterThan(1.05 * at(512));
  });

  test("what a machine has not, a paper's model does not know, or would be computed at no speed", () => {
    const request = { hardware: CPU_MACHINE, shape, workload };
    const onGpu = { ...flexgenPolicy(1, 1, [0, 100, 100, 0, 0, 100]) };
    const sentence = 'policy: found cache.gpu 1, expected 0: "two cores" has no GPU, or its memory is capped at 0';
    expect(() => predict(request, onGpu)).toThrow(new UsageError(sentence));
    expect(() => blockSecondsOf(request, onGpu)).toThrow(new UsageError(sentence));
    expect(() => predict({ ...request, hardware: builtIn('flexgen-t4'), caps: { gpu: 0 } }, onGpu)).toThrow(
      'policy: found cache.gpu 1, expected 0: "flexgen-t4" has no GPU',
    );
    const experts = { ...request, hardware: builtIn('flexgen-t4'), shape: requireKnownShape('mixtral-8x7b') };
    expect(() => choosePolicy({ ...experts, costModel: 'flexgen' })).toThrow(
      new UsageError(
        "costModel: found flexgen for mixtral-8x7b with 8 experts, expected spillway: the papers' models know dense models alone",
      ),
    );
    const point = { weights: 'f16' as const, tokens: 1, flopsPerSecond: 1e9 };
    const measured = (matmul: object[]): unknown => ({ ...CPU_MACHINE, cpu: { ...CPU_MACHINE.cpu, matmul } });
    const refused = (matmul: object[]): unknown => parseHardware(measured(matmul), 'h.json');
    expect(() => refused([{ ...point, inputs: 4096 }])).toThrow(
      'cpu.matmul: found [{"weights":"f16","tokens":1,"flopsPerSecond":1000000000,"inputs":4096}], expected inputs below 4096, and none for longer ones',
    );
    expect(() =>
      refused([
        { ...point, weights: 'q8' },
        { ...point, inputs: 512 },
      ]),
    ).toThrow('expected points of f16 without inputs, too: long ones');
  });

  test('a given policy is predicted even where it does not fit', () => {
    const prediction = predict(
      { hardware: builtIn('flexgen-t4'), shape: requireKnownShape('opt-175b'), workload },
      flexgenPolicy(8, 1, [100, 0, 100, 0, 100, 0]),
    );
    expect(prediction).toMatchObject({ fits: false, warning: expect.stringContaining('gpu: ') });
    expect(prediction.tokensPerSecond).toBeGreaterThan(0);
  });

  test('a profile of another machine', () => {
    const here = { processorName: 'a processor of tests', processors: 2, memoryBytes: 8 * 2 ** 30 };
    expect(() => checkSameMachine(CPU_MACHINE, here)).not.toThrow();
    expect(() => checkSameMachine(CPU_MACHINE, { ...here, processorName: 'Intel Xeon' })).toThrow(
      "is of another machine: its processor is a processor of tests, this machine's Intel Xeon",
    );
    expect(() => checkSameMachine(CPU_MACHINE, { ...here, processors: 4 })).toThrow('number of processors is 2');
    expect(() => checkSameMachine(CPU_MACHINE, { ...here, memoryBytes: 2 ** 34 })).toThrow('its memory is 8 GiB');
    expect(() => checkSameMachine(builtIn('flexgen-t4'), here)).toThrow('processor is not stated');
  });
});
