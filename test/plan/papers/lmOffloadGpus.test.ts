import { describe, expect, test } from '@jest/globals';
import type { HardwareProfile } from '../../../src/plan/HardwareProfile.js';
import type { ModelShape } from '../../../src/plan/ModelShape.js';
import { requireKnownShape } from '../../../src/plan/knownShapes.js';
import { predictPipeline } from '../../../src/plan/pipeline/predictPipeline.js';
import type { Policy } from '../../../src/plan/Policy.js';
import { predict } from '../../../src/plan/predict.js';
import { builtIn, flexgenPolicy } from '../support/hardware.js';
import { alike, SCALING } from '../support/scaling.js';

const { models, gpus, batchSize, batches, promptTokens, newTokens, link, gain, differenceGrowth } = SCALING.lmOffload;
const WHOLE = builtIn('lm-offload-v100');

/** The host as one of several GPUs has it: a part of its memory, and of its processors if all share them. */
function partOfHost(count: number, shared: boolean): HardwareProfile {
  const { memory, cpu } = WHOLE;
  const part = shared ? 1 / count : 1;
  return {
    ...WHOLE,
    memory: { ...memory, cpuBytes: memory.cpuBytes / count },
    cpu: {
      ...cpu,
      memoryBytesPerSecond: cpu.memoryBytesPerSecond * part,
      attention: {
        prefillFlopsPerSecond: cpu.attention.prefillFlopsPerSecond * part,
        decodeBytesPerSecond: cpu.attention.decodeBytesPerSecond * part,
      },
    },
  };
}

/** Predicted on one GPU, or on several that have equally many layers each. */
function run(count: number, hardware: HardwareProfile, shape: ModelShape, policy: Policy) {
  const workload = { promptTokens, newTokens, rows: batchSize * batches * count };
  if (count === 1) {
    const { tokensPerSecond, memoryBytes } = predict({ hardware, shape, workload }, policy);
    return { tokensPerSecond, memories: [memoryBytes] };
  }
  const request = { machines: alike(hardware, count, link), shape, workload, hiddenStates: 'bfloat16' as const };
  const { tokensPerSecond, stages } = predictPipeline(request, policy, { microBatches: count });
  return { tokensPerSecond, memories: stages.map(({ memoryBytes }) => memoryBytes) };
}

/** Tokens/s with as much of the weights on the GPUs as fits, in steps of 5%. */
function fastest(model: string, count: number, hardware: HardwareProfile, more: Partial<Policy>): number {
  const { gpuBytes, cpuBytes } = hardware.memory;
  for (let share = 100; share >= 0; share -= 5) {
    const policy = flexgenPolicy(batchSize, batches * count, [share, 100 - share, 0, 100, 0, 100], {
      ...more,
      tokensPerSquare: batchSize * promptTokens,
    });
    const shape = requireKnownShape(model);
    const { tokensPerSecond, memories } = run(count, hardware, shape, policy);
    // Our engines have room for all hidden states that may be on their way, the paper's have not.
    const ways = count === 1 ? 0 : 2;
    const onTheirWay = ways * batches * count * batchSize * promptTokens * shape.hiddenSize * 4;
    if (memories.every(({ gpu, cpu }) => gpu <= gpuBytes && cpu <= cpuBytes + onTheirWay)) return tokensPerSecond;
  }
  throw new Error(`${model} does not fit on ${count} GPUs`);
}

const runs = (shared: boolean) =>
  models.flatMap((model) =>
    gpus.map((count) => {
      const hardware = partOfHost(count, shared);
      const flexgen = fastest(model, count, hardware, { cpuAttention: true });
      const own = fastest(model, count, hardware, { cpuAttention: false, compressCache: '4bit' });
      return { model, count, flexgen, own, gain: own / flexgen };
    }),
  );
const [apart, shared] = [runs(false), runs(true)];
const gains = (of: typeof apart): number[] => of.map((each) => each.gain);
const mean = (of: readonly number[]): number => of.reduce((sum, each) => sum + each, 0) / of.length;

// How far processes of several GPUs are in each other's way on the processors is in no figure: both ends are predicted.
describe("LM-Offload's section 5.5: its policy and FlexGen's on 1, 2 and 4 GPUs of one host", () => {
  test('it is ahead of FlexGen in all cases, as measured', () => {
    expect(Math.min(...gains(apart), ...gains(shared))).toBeGreaterThan(gain.least);
  });

  test('the mean gain is within 20% where each GPU has the processors as one alone, and more where they share them', () => {
    expect(Math.abs(mean(gains(apart)) / gain.mean - 1)).toBeLessThan(0.2);
    expect(mean(gains(shared))).toBeGreaterThan(gain.mean);
  });

  test('the largest gain that was measured lies between the two', () => {
    expect(Math.max(...gains(apart))).toBeLessThan(gain.most);
    expect(Math.max(...gains(shared))).toBeGreaterThan(gain.most);
  });

  test('it grows with the GPUs where processors are shared: FlexGen does not get faster then', () => {
    for (const model of models) {
      const [one, two, four] = shared.filter((each) => each.model === model);
      if (!one || !two || !four) throw new Error('no runs');
      expect(four.flexgen / one.flexgen).toBeLessThan(1.1);
      expect(four.own / one.own).toBeGreaterThan(3);
      expect(four.gain).toBeGreaterThan(two.gain);
      expect(two.gain).toBeGreaterThan(one.gain);
      const growth = (four.own - four.flexgen) / (one.own - one.flexgen);
      expect(growth).toBeGreaterThan(differenceGrowth / 3);
      expect(growth).toBeLessThan(differenceGrowth);
    }
  });
});
