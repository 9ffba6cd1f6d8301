import { describe, expect, test } from '@jest/globals';
import { InterruptedError } from '../src/errors/InterruptedError.js';
import { UsageError } from '../src/errors/UsageError.js';
import type { HardwareProfile } from '../src/plan/HardwareProfile.js';
import { requireKnownShape } from '../src/plan/knownShapes.js';
import type { PipelineMachine } from '../src/plan/pipeline/Machines.js';
import type { PipelineRequest } from '../src/plan/pipeline/PipelineRequest.js';
import { planPipeline } from '../src/plan/pipeline/planPipeline.js';
import { predictPipeline } from '../src/plan/pipeline/predictPipeline.js';
import { simulatePipeline, type SimulatePipelineOptions } from '../src/simulatePipeline.js';
import { builtIn, flexgenPolicy } from './plan/support/hardware.js';
import { faster, machine, request, scarce } from './plan/support/machines.js';
import { crossed, tries } from './support/tries.js';

// Queues that are about as busy wait for each other, as was measured; those that are simulated do so less.
test.each([
  ['two alike', [machine('a'), machine('b')], 1.12],
  ['four alike', ['a', 'b', 'c', 'd'].map((name) => machine(name)), 1.12],
  ['unequal ones', [machine('a', faster(2)), machine('b'), machine('c', faster(3))], 1.12],
  ['layers that stream', [machine('a', scarce), machine('b', scarce)], 1.35],
])('the closed form is what simulated engines come to, at once and in turn: %s', async (_, machines, most) => {
  const workload = { promptTokens: 32, newTokens: 24, rows: 24 };
  const given = request(machines, { workload, allow: { batchSize: 2 } });
  const plan = planPipeline(given);
  const simulated = await simulatePipeline(given, plan);
  expect(simulated.tokensPerSecond / plan.tokensPerSecond).toBeGreaterThan(0.88);
  expect(simulated.tokensPerSecond / plan.tokensPerSecond).toBeLessThan(most);
  simulated.idleShares.forEach((idle, stage) => {
    expect(Math.abs(idle - (plan.stages[stage]?.idleShare ?? NaN))).toBeLessThan(most - 1);
  });
  const inTurn = await simulatePipeline(given, plan, { microBatches: 1 });
  expect(inTurn.tokensPerSecond / plan.inTurnTokensPerSecond).toBeGreaterThan(0.88);
  expect(inTurn.tokensPerSecond / plan.inTurnTokensPerSecond).toBeLessThan(Math.max(1.2, most));
});

describe('the processor attends beside a GPU', () => {
  // Links so fast that computing decides; a processor that has more to do than the GPU, about as much, and less.
  const machines = (stages: number, times: number): PipelineMachine[] => {
    const hardware = builtIn('flexgen-t4');
    const { links, cpu } = hardware;
    const { prefillFlopsPerSecond, decodeBytesPerSecond } = cpu.attention;
    return Array.from({ length: stages }, (_, stage) => ({
      name: `${stage}`,
      hardware: {
        ...hardware,
        links: { ...links, hostToDeviceBytesPerSecond: 1e13, deviceToHostBytesPerSecond: 1e13 },
        cpu: { ...cpu, attention: { prefillFlopsPerSecond, decodeBytesPerSecond: decodeBytesPerSecond * times } },
      },
      link: { bytesPerSecond: 1.2e10, latencySeconds: 1e-5 },
    }));
  };
  const policy = flexgenPolicy(16, 1, [100, 0, 0, 100, 100, 0], { tokensPerSquare: 2048 });
  const opt = requireKnownShape('opt-6.7b');
  const compared = async (stages: number, layers: number, times: number, batches: number) => {
    const given: PipelineRequest = {
      machines: machines(stages, times),
      shape: { ...opt, layers: stages * layers },
      workload: { promptTokens: 128, newTokens: 32, rows: 16 * batches },
    };
    const plan = predictPipeline(given, { ...policy, batches });
    return { plan, ratio: (await simulatePipeline(given, plan)).seconds / plan.wallSeconds };
  };

  test.each(crossed([2, 4], [1, 8, 2, 4].slice(0, tries(2, 4))))(
    'the closed form is what is simulated, for few micro-batches and many: %i stages, a processor %i times as fast',
    async (stages, times) => {
      for (const batches of new Set([1, 3, 2 * stages, 2, 4].slice(0, tries(3, 5))))
        for (const layers of [2, 4].slice(0, tries(1, 2))) {
          const { ratio } = await compared(stages, layers, times, batches);
          expect({ batches, layers, ratio, near: ratio > 0.89 && ratio < 1.11 }).toMatchObject({ near: true });
        }
    },
  );

  test('micro-batches that wait are computed while the processor attends for those before them', async () => {
    const [few, many] = [await compared(4, 2, 1, 4), await compared(4, 2, 1, 8)];
    // Without that twice as many take twice as long.
    expect(many.plan.wallSeconds / few.plan.wallSeconds).toBeLessThan(1.85);
    expect(many.plan.tokensPerSecond).toBeGreaterThan(1.08 * few.plan.tokensPerSecond);
  });
});

test.each([
  ['four batches', { batchSize: 4, batches: 4 }],
  ['one more', { batchSize: 4, batches: 5 }],
  ['twice as many', { batchSize: 2, batches: 8 }],
  ['prompts in chunks', { batchSize: 4, batches: 4, tokensPerSquare: 16 }],
])('prompts of every block of rows fill the pipeline: %s', async (_, allow) => {
  const machines = ['a', 'b', 'c', 'd'].map((name) => machine(name));
  const given = request(machines, { workload: { promptTokens: 16, newTokens: 8, rows: 64 }, allow });
  const plan = planPipeline(given);
  const simulated = await simulatePipeline(given, plan);
  expect(simulated.tokensPerSecond / plan.tokensPerSecond).toBeGreaterThan(0.9);
  expect(simulated.tokensPerSecond / plan.tokensPerSecond).toBeLessThan(1.1);
});

describe('links of any speed', () => {
  const over = (bytesPerSecond: number, hardware: HardwareProfile): PipelineMachine[] =>
    ['a', 'b'].map((name) => ({ name, hardware, link: { bytesPerSecond, latencySeconds: 0.0002 } }));
  const t4 = (bytesPerSecond: number): PipelineRequest => ({
    machines: over(bytesPerSecond, builtIn('flexgen-t4')),
    shape: requireKnownShape('opt-6.7b'),
    workload: { promptTokens: 200, newTokens: 16, rows: 64 },
    allow: { batchSize: 16, batches: 2 },
  });
  const streaming = (bytesPerSecond: number): PipelineRequest =>
    request(over(bytesPerSecond, scarce), {
      workload: { promptTokens: 32, newTokens: 24, rows: 24 },
      allow: { batchSize: 2 },
    });

  const speeds = [
    ['engines that compute', 1e5, t4],
    ['engines that compute', 1.2e7, t4],
    ['engines that compute', 1e8, t4],
    ['engines that stream', 1e6, streaming],
    // Between these two, and slower than what is slow already.
    ['engines that compute', 1e6, t4],
    ['engines that stream', 1e5, streaming],
  ] as const;
  test.each(speeds.slice(0, tries(4, 6)))(
    'no plan ends before its hidden states are through, and no other number of micro-batches is faster: %s, %d B/s',
    async (_, bytesPerSecond, requestOver) => {
      const given = requestOver(bytesPerSecond);
      const plan = planPipeline(given);
      const newTokens = plan.rows * plan.workload.newTokens;
      for (const { linkSeconds } of plan.stages) {
        expect(linkSeconds).toBeLessThanOrEqual(plan.wallSeconds);
        expect(linkSeconds).toBeLessThanOrEqual(newTokens / plan.inTurnTokensPerSecond);
      }
      const chosen = await simulatePipeline(given, plan);
      for (const microBatches of new Set([1, plan.stages.length, plan.batches]))
        expect(chosen.seconds).toBeLessThanOrEqual((await simulatePipeline(given, plan, { microBatches })).seconds);
      expect(chosen.seconds / plan.wallSeconds).toBeGreaterThan(0.75);
      expect(chosen.seconds / plan.wallSeconds).toBeLessThan(1.25);
    },
  );
});

test.each([
  ['tokens that are sampled', { promptTokens: 64, newTokens: 64 }, 1e6],
  ['chunks of prompts', { promptTokens: 2000, newTokens: 8 }, 12_000],
])('more rows than a simulation goes through in reasonable time are refused: %s', async (_, tokens, rows) => {
  const workload = { ...tokens, rows: 128 };
  const given = request([machine('a'), machine('b')], { workload, allow: { batchSize: 4, batches: 2 } });
  await expect(simulatePipeline(given, { ...planPipeline(given), rows })).rejects.toThrow(
    new RegExp(`simulating ${rows} rows would take about \\d+ million squares, expected at most 1 million: give fewer`),
  );
});

test('whoever asks for an end gets it in the midst of the simulation, or before it', async () => {
  const given = request([machine('a'), machine('b')], { workload: { promptTokens: 64, newTokens: 64, rows: 2_000 } });
  const plan = planPipeline(given);
  const controller = new AbortController();
  const simulated = simulatePipeline(given, plan, { signal: controller.signal });
  setImmediate(() => {
    controller.abort('SIGINT');
  });
  await expect(simulated).rejects.toThrow(InterruptedError);
  await expect(simulatePipeline(given, plan, { signal: AbortSignal.abort() })).rejects.toThrow(InterruptedError);
});

test.each<[unknown, string]>([
  [null, 'options: found null, expected an object'],
  [{ signals: 1 }, 'options: found the unknown "signals", expected any of microBatches, signal (did you mean signal?)'],
  [{ microBatches: 0 }, 'microBatches: found 0, expected a whole number of at least 1'],
  [{ signal: {} }, 'signal: found an empty object, expected an AbortSignal'],
])('options that are none are refused %#', async (options, sentence) => {
  const given = request([machine('a'), machine('b')]);
  await expect(simulatePipeline(given, planPipeline(given), options as SimulatePipelineOptions)).rejects.toThrow(
    new UsageError(sentence),
  );
});
