import { expect, test } from '@jest/globals';
import { requireKnownShape } from '../src/plan/knownShapes.js';
import { parsePolicy } from '../src/plan/Policy.js';
import { simulatePlan, type SimulateOptions } from '../src/simulatePlan.js';
import { ScheduleError } from '../src/errors/engineErrors.js';
import { UsageError } from '../src/errors/UsageError.js';
import { diagonalBlock, rowByRow, type Schedule } from '../src/api/schedules.js';
import { predict } from '../src/plan/predict.js';
import { builtIn, CPU_MACHINE, flexgenPolicy } from './plan/support/hardware.js';

test.each<[unknown, string]>([
  [null, 'options: found null, expected an object'],
  [
    { pipelines: () => 1 },
    'options: found the unknown "pipelines", expected any of onTrace, schedule, pipeline, timings, signal (did you mean pipeline?)',
  ],
  [{ onTrace: 'trace.json' }, 'onTrace: found "trace.json", expected a function'],
  [{ pipeline: 1 }, 'pipeline: found 1, expected a function'],
  [
    { schedule: 'mine' },
    'schedule: found "mine", expected a Schedule, such as rowByRow(), zigZagBlock() or diagonalBlock() returns',
  ],
  [{ timings: {} }, 'timings: found an empty object, expected an object with a method completed'],
  [{ signal: {} }, 'signal: found an empty object, expected an AbortSignal'],
])('options that are none are refused %#', async (options, sentence) => {
  const request = {
    hardware: CPU_MACHINE,
    shape: requireKnownShape('opt-125m'),
    workload: { promptTokens: 4, newTokens: 2, rows: 1 },
  };
  await expect(simulatePlan(request, parsePolicy({}, 'test'), options as SimulateOptions)).rejects.toThrow(
    new UsageError(sentence),
  );
});

test.each([16, 512])(
  'attention on the processor has a queue of its own: batches take as long as the slower of the two, one takes their sum (prompts of %i tokens)',
  async (promptTokens) => {
    // A link so fast that computing decides.
    const hardware = builtIn('flexgen-t4');
    const links = { ...hardware.links, hostToDeviceBytesPerSecond: 1e13, deviceToHostBytesPerSecond: 1e13 };
    const request = {
      hardware: { ...hardware, links },
      shape: { ...requireKnownShape('opt-6.7b'), layers: 4 },
      workload: { promptTokens, newTokens: 64, rows: 48 },
    };
    const run = async (batchSize: number, batches: number) => {
      const policy = flexgenPolicy(batchSize, batches, [100, 0, 0, 100, 100, 0]);
      const { seconds, queueSeconds } = await simulatePlan(request, policy);
      const [gpu, cpu] = [queueSeconds['gpu-compute'] ?? 0, queueSeconds['cpu-compute'] ?? 0];
      return { seconds, gpu, cpu, predicted: predict({ ...request, costModel: 'spillway' }, policy).wallSeconds };
    };
    const [one, six] = [await run(48, 1), await run(8, 6)];
    for (const { gpu, cpu } of [one, six]) expect(Math.min(gpu, cpu)).toBeGreaterThan(0.2 * Math.max(gpu, cpu));
    expect(one.seconds).toBeGreaterThan(0.99 * (one.gpu + one.cpu));
    expect(six.seconds).toBeLessThan(1.15 * Math.max(six.gpu, six.cpu));
    for (const { seconds, predicted } of [one, six]) {
      expect(seconds / predicted).toBeGreaterThan(0.9);
      expect(seconds / predicted).toBeLessThan(1.15);
    }
  },
);

test.each([
  [100, 10],
  [69, 22],
])(
  'the cache comes to the GPU and the processor attends, both at once: as in the closed form, and faster than either (%i%% of the weights there, %i batches)',
  async (weights, batches) => {
    const request = {
      hardware: builtIn('lm-offload-a100'),
      shape: { ...requireKnownShape('opt-30b'), layers: 4 },
      workload: { promptTokens: 64, newTokens: 40, rows: 30 * batches },
    };
    const run = async (cpuAttention: boolean | number) => {
      const policy = { ...flexgenPolicy(30, batches, [weights, 100 - weights, 0, 100, 100, 0]), cpuAttention };
      const { seconds, queueSeconds } = await simulatePlan(request, policy);
      const predicted = predict({ ...request, costModel: 'spillway' }, policy);
      for (const queue of ['host-to-device', 'cpu-compute'])
        expect((queueSeconds[queue] ?? 0) / Math.max(1e-9, predicted.queueSeconds[queue] ?? 0)).toBeLessThan(1.02);
      expect(seconds / predicted.wallSeconds).toBeGreaterThan(0.93);
      expect(seconds / predicted.wallSeconds).toBeLessThan(1.05);
      return { seconds, link: queueSeconds['host-to-device'] ?? 0, host: queueSeconds['cpu-compute'] ?? 0 };
    };
    const [host, link, both] = [await run(true), await run(false), await run(0.5)];
    expect(both.seconds).toBeLessThan(0.8 * Math.min(host.seconds, link.seconds));
    if (weights === 100) expect(both.seconds).toBeLessThan(1.1 * Math.max(both.host, both.link));
  },
);

test.each([
  ['none', 69, false],
  ['none', 40, 0.5],
  ['4bit', 69, false],
  ['4bit', 40, false],
  ['4bit', 69, 0.5],
] as const)(
  'pages go before weights on the link: a layer takes as long as its busiest queue (%s, %i%% of the weights there, cpuAttention %s)',
  async (compressCache, weights, cpuAttention) => {
    const request = {
      hardware: builtIn('lm-offload-a100'),
      shape: { ...requireKnownShape('opt-30b'), layers: 4 },
      workload: { promptTokens: 64, newTokens: 40, rows: 30 * 10 },
    };
    const policy = {
      ...flexgenPolicy(30, 10, [weights, 100 - weights, 50, 50, 100, 0], { compressCache }),
      cpuAttention,
    };
    const { seconds, queueSeconds } = await simulatePlan(request, policy);
    const predicted = predict({ ...request, costModel: 'spillway' }, policy);
    expect(seconds / predicted.wallSeconds).toBeGreaterThan(0.97);
    expect(seconds / predicted.wallSeconds).toBeLessThan(1.05);
    expect(seconds).toBeLessThan(1.15 * Math.max(...Object.values(queueSeconds)));
    expect(queueSeconds['host-to-device']).toBeGreaterThan(0.2 * seconds);
  },
);

test.each([true, false, 0.5])(
  'pages go before weights on the disk, too, whoever attends to them (cpuAttention %s)',
  async (cpuAttention) => {
    const request = {
      hardware: builtIn('flexgen-t4-measured'),
      shape: { ...requireKnownShape('opt-30b'), layers: 4 },
      workload: { promptTokens: 64, newTokens: 40, rows: 30 * 10 },
    };
    const policy = { ...flexgenPolicy(30, 10, [20, 60, 0, 50, 100, 0]), cpuAttention };
    const { seconds, queueSeconds } = await simulatePlan(request, policy);
    const predicted = predict({ ...request, costModel: 'spillway' }, policy);
    expect(seconds / predicted.wallSeconds).toBeGreaterThan(0.97);
    expect(seconds / predicted.wallSeconds).toBeLessThan(1.05);
    expect(queueSeconds['disk-read']).toBeGreaterThan(0.5 * seconds);
  },
);

test.each([
  ['opt-6.7b', 1],
  ['mixtral-8x7b', 1],
  ['opt-6.7b', 4],
])(
  '%s in 4 bits, %i batches: a GPU makes floats of the weights that are used, once a sweep, in both',
  async (name, batches) => {
    const hardware = builtIn('lm-offload-a100');
    const request = {
      hardware,
      shape: { ...requireKnownShape(name), layers: 2 },
      workload: { promptTokens: 32, newTokens: 32, rows: 8 * batches },
    };
    const of = async (compressWeights: 'none' | '4bit') => {
      const policy = flexgenPolicy(8, batches, [100, 0, 100, 0, 100, 0], { compressWeights });
      const { queueSeconds } = await simulatePlan(request, policy);
      return {
        simulated: queueSeconds['gpu-compute'] ?? 0,
        predicted: predict(request, policy).queueSeconds['gpu-compute'] ?? 0,
      };
    };
    const [plain, compressed] = [await of('none'), await of('4bit')];
    const more = compressed.predicted - plain.predicted;
    expect(more).toBeGreaterThan(0);
    expect((compressed.simulated - plain.simulated) / more).toBeGreaterThan(0.9);
    expect((compressed.simulated - plain.simulated) / more).toBeLessThan(1.1);
  },
);

test("a schedule of one's own is simulated in the place of the policy's, and judged", async () => {
  const request = {
    hardware: CPU_MACHINE,
    shape: requireKnownShape('opt-125m'),
    workload: { promptTokens: 16, newTokens: 8, rows: 12 },
  };
  const policy = parsePolicy({ batchSize: 2, batches: 2, schedule: 'diagonal' }, 'test');
  const planned = await simulatePlan(request, policy);
  expect(await simulatePlan(request, policy, { schedule: diagonalBlock() })).toEqual(planned);
  const rowwise = await simulatePlan(request, policy, { schedule: rowByRow() });
  expect(rowwise.seconds).toBeGreaterThan(planned.seconds);
  expect(rowwise).toEqual(await simulatePlan(request, { ...policy, schedule: 'row' }));
  const { free, ...rest } = diagonalBlock();
  const greedy = { ...rest, free: (...given: Parameters<typeof free>) => free(...given) + 1 };
  await expect(simulatePlan(request, policy, { schedule: greedy })).rejects.toThrow();
  const skipping: Schedule = { ...diagonalBlock(), next: (state) => ({ state, squares: [] }) };
  await expect(simulatePlan(request, policy, { schedule: skipping })).rejects.toThrow(ScheduleError);
});
