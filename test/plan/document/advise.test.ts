import { describe, expect, test } from '@jest/globals';
import { drained } from '../../../src/collections/drained.js';
import { advise } from '../../../src/plan/document/advise.js';
import type { ComputeProfile, HardwareProfile } from '../../../src/plan/HardwareProfile.js';
import { requireKnownShape } from '../../../src/plan/knownShapes.js';
import type { PlanRequest } from '../../../src/plan/PlanRequest.js';
import { parsePolicy } from '../../../src/plan/Policy.js';
import { predict } from '../../../src/plan/predict.js';
import { CPU_MACHINE } from '../support/hardware.js';

const policy = parsePolicy({ schedule: 'diagonal', batchSize: 32, batches: 1, threads: 1 }, 'test');

/** What a processor that is twice as fast would gain. */
function gain(cpu: Partial<ComputeProfile>): number {
  const hardware: HardwareProfile = { ...CPU_MACHINE, cpu: { ...CPU_MACHINE.cpu, ...cpu } };
  const request: PlanRequest = {
    hardware,
    shape: requireKnownShape('opt-1.3b'),
    workload: { promptTokens: 512, newTokens: 128 },
    allow: { batchSize: 32, batches: 1, threads: 1 },
  };
  const advice = drained(advise(request, policy, predict(request, policy).tokensPerSecond));
  return advice.find(({ change }) => change === 'a CPU that computes twice as fast')?.factor ?? 1;
}

describe('advise', () => {
  const { attention, matmul } = CPU_MACHINE.cpu;
  const slow = { ...attention, decode: [{ cache: 'f16' as const, groupHeads: 1, bytesPerSecond: 1e8 }] };

  test.each<[string, Partial<ComputeProfile>]>([
    ['attention by cache and heads', { attention: slow }],
    ['what rows take beside keys', { attention: { ...attention, rowHeadsPerSecond: 1e4 } }],
    [
      'one thread',
      {
        oneThread: {
          threads: 1,
          matmul: matmul.map((point) => ({ ...point, flopsPerSecond: point.flopsPerSecond / 50 })),
          attention: slow,
        },
      },
    ],
  ])('of a processor that is twice as fast all is: %s', (_, cpu) => {
    const factor = gain(cpu);
    expect(factor).toBeGreaterThan(1.8);
    expect(factor).toBeLessThan(2.001);
  });
});
