import { describe, expect, test } from '@jest/globals';
import { requireKnownShape } from '../../../src/plan/knownShapes.js';
import type { PipelineMachine } from '../../../src/plan/pipeline/Machines.js';
import { planPipeline, type PipelineRequest } from '../../../src/plan/pipeline/planPipeline.js';
import type { HardwareProfile } from '../../../src/plan/HardwareProfile.js';
import { simulatePipeline } from '../../../src/simulatePipeline.js';
import { CPU_MACHINE } from '../support/hardware.js';

const LINK = { bytesPerSecond: 117e6, latencySeconds: 0.0002 };
const machine = (name: string, hardware: HardwareProfile = CPU_MACHINE): PipelineMachine => ({
  name,
  hardware,
  link: LINK,
});
/** The machine with a processor that many times as fast. */
const faster = (times: number): HardwareProfile => {
  const { cpu } = CPU_MACHINE;
  return {
    ...CPU_MACHINE,
    cpu: {
      ...cpu,
      matmul: cpu.matmul.map((point) => ({ ...point, flopsPerSecond: point.flopsPerSecond * times })),
      attention: {
        prefillFlopsPerSecond: cpu.attention.prefillFlopsPerSecond * times,
        decodeBytesPerSecond: cpu.attention.decodeBytesPerSecond * times,
      },
      memoryBytesPerSecond: cpu.memoryBytesPerSecond * times,
      taskSeconds: cpu.taskSeconds / times,
    },
  };
};
/** The machine with memory for a part of what it gets. */
const scarce = { ...CPU_MACHINE, memory: { ...CPU_MACHINE.memory, cpuBytes: 1.5 * 2 ** 30 } };
const shape = { ...requireKnownShape('llama-2-7b'), weightType: 'Q4_1' as const };
const request = (machines: readonly PipelineMachine[], more: Partial<PipelineRequest> = {}): PipelineRequest => ({
  machines,
  shape: {
    ...shape,
    layerWeightBytes: shape.layerWeightBytes * (5 / 16),
    globalWeightBytes: shape.globalWeightBytes * (5 / 16),
  },
  workload: { promptTokens: 64, newTokens: 64, rows: 128 },
  allow: { batchSize: 8 },
  ...more,
});
const layersOf = (plan: ReturnType<typeof planPipeline>): number[] => plan.stages.map(({ layers }) => layers.count);

describe('planPipeline', () => {
  test('machines that are alike get as many layers, and compute nearly all of the time', () => {
    const two = planPipeline(request([machine('a'), machine('b')]));
    expect(Math.abs((layersOf(two)[0] ?? 0) - 16)).toBeLessThanOrEqual(1);
    expect(two.stages.map(({ layers }) => layers.first)).toEqual([0, layersOf(two)[0]]);
    for (const { idleShare } of two.stages) expect(idleShare).toBeLessThan(0.15);
    expect(two.tokensPerSecond / two.inTurnTokensPerSecond).toBeGreaterThan(1.7);
    const four = planPipeline(request(['a', 'b', 'c', 'd'].map((name) => machine(name))));
    expect(four.tokensPerSecond / two.tokensPerSecond).toBeGreaterThan(1.7);
    expect(four.tokensPerSecond / four.inTurnTokensPerSecond).toBeGreaterThan(3.2);
  });

  test('a machine that is three times as fast gets three times the layers', () => {
    const [slow = 0, fast = 0] = layersOf(planPipeline(request([machine('slow'), machine('fast', faster(3))])));
    expect(slow + fast).toBe(32);
    expect(fast / slow).toBeGreaterThan(2.3);
    expect(fast / slow).toBeLessThan(3.8);
  });

  test('memory bounds what a machine gets; the other one is then what the time is spent on', () => {
    const small = { ...CPU_MACHINE, memory: { ...CPU_MACHINE.memory, cpuBytes: 2 ** 30, diskBytes: 0 } };
    const plan = planPipeline(request([machine('small', small), machine('large')]));
    expect(layersOf(plan)[0]).toBeLessThan(10);
    expect(plan.bottleneck).toBe('large');
    expect(plan.stages[0]?.memoryBytes.cpu).toBeLessThanOrEqual(2 ** 30);
    expect(() => planPipeline(request([machine('small', small), machine('small too', small)]))).toThrow(
      /machines: found 2 with .* of memory together, which do not hold llama-2-7b with 2 batches of 8 rows/,
    );
  });

  test('a link that is slow, and one that is far away', () => {
    const over = (link: PipelineMachine['link'], allow = {}): ReturnType<typeof planPipeline> =>
      planPipeline(
        request(
          [
            { ...machine('a'), link },
            { ...machine('b'), link },
          ],
          { allow: { batchSize: 8, ...allow } },
        ),
      );
    expect(over({ bytesPerSecond: 1e5, latencySeconds: 0 }).bottleneck).toBe('the link behind a');
    const far = { ...LINK, latencySeconds: 5 };
    expect(over(far, { batches: 2 }).bottleneck).toBe('latency');
    // More of them in flight hide some of it.
    expect(over(far, { batches: 4 }).tokensPerSecond).toBeGreaterThan(1.8 * over(far, { batches: 2 }).tokensPerSecond);
  });

  test.each([
    [[], /machines: found .*, expected a list of at least 2/],
    [
      [machine('a'), { ...machine('b'), link: { ...LINK, bytesPerSecond: 0 } }],
      /machines.1.link.bytesPerSecond: found 0/,
    ],
  ] as const)('bad machines are refused: %#', (machines, words) => {
    expect(() => planPipeline(request(machines))).toThrow(words);
  });

  test('what shares prefixes, or is costed by a paper, is refused', () => {
    const two = [machine('a'), machine('b')];
    expect(() => planPipeline(request(two, { costModel: 'flexgen' }))).toThrow(/costModel: found flexgen/);
    expect(() => planPipeline(request(two, { allow: { schedules: ['row'] } }))).toThrow(/schedules: found row/);
    const workload = { promptTokens: 64, newTokens: 8, sharedPrefixTokens: 32 };
    expect(() => planPipeline(request(two, { workload }))).toThrow(/sharedPrefixTokens: found 32/);
    expect(() => planPipeline(request(Array.from({ length: 33 }, (_, i) => machine(`${i}`))))).toThrow(
      /at most the 32 layers/,
    );
  });

  const streaming = request([machine('a', scarce), machine('b', scarce)]);

  test('weights that stream serve all batches at once: engines take turns where that is faster', () => {
    const workload = { promptTokens: 32, newTokens: 24, rows: 24 };
    const plan = planPipeline({ ...streaming, workload, allow: { batchSize: 2 } });
    expect(plan.stages.every(({ policy }) => policy.weights.disk > 0)).toBe(true);
    expect([plan.microBatches, plan.batches]).toEqual([1, expect.any(Number)]);
    expect(plan.tokensPerSecond).toBe(plan.inTurnTokensPerSecond);
    // Who computes for as long as one is read has something to overlap.
    const slow = { ...faster(1 / 16), memory: scarce.memory };
    const busy = planPipeline({
      ...streaming,
      machines: [machine('a', slow), machine('b', slow)],
      workload,
      allow: { batchSize: 4 },
    });
    expect(busy.stages.every(({ policy }) => policy.weights.disk > 0)).toBe(true);
    expect(busy.microBatches).toBe(busy.batches);
    expect(busy.tokensPerSecond).toBeGreaterThan(1.3 * busy.inTurnTokensPerSecond);
  });

  // Queues that are about as busy wait for each other, as was measured; those that are simulated do so less.
  test.each([
    ['two alike', [machine('a'), machine('b')], 1.12],
    ['four alike', ['a', 'b', 'c', 'd'].map((name) => machine(name)), 1.12],
    ['unequal ones', [machine('a', faster(2)), machine('b'), machine('c', faster(3))], 1.12],
    ['layers that stream', streaming.machines, 1.35],
  ])(
    'the closed form is what simulated engines come to, at once and in turn: %s',
    async (_, machines, most) => {
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
    },
    120_000,
  );
});
