import { expect, test } from '@jest/globals';
import { readFileSync } from 'node:fs';
import { parseHardware } from '../../../src/plan/HardwareProfile.js';
import { requireKnownShape } from '../../../src/plan/knownShapes.js';
import type { PlanRequest } from '../../../src/plan/PlanRequest.js';
import { parsePolicy } from '../../../src/plan/Policy.js';
import { predict } from '../../../src/plan/predict.js';
import { choosePolicy } from '../../../src/plan/search/choosePolicy.js';
import { CPU_MACHINE } from '../support/hardware.js';

const MEASURED = new URL('../../fixtures/hardware/nvidia-h200.json', import.meta.url);
// The speed step of scripts/verify-gpu.sh.
const request: PlanRequest = {
  hardware: parseHardware(JSON.parse(readFileSync(MEASURED, 'utf8')), 'an H200'),
  shape: requireKnownShape('opt-6.7b'),
  workload: { promptTokens: 512, newTokens: 32, rows: 96 },
  caps: { gpu: 16 * 2 ** 30, cpu: 100e9 },
  allow: { schedules: ['diagonal', 'zigzag'], mostBatchSize: 64, mostBatches: 4, cpuAttention: [false] },
};
const onGpu = { gpu: 1, cpu: 0, disk: 0 };

test('the tokens/s that an H200 made of a block whose tasks are started ahead', () => {
  const policy = parsePolicy(
    { schedule: 'diagonal', batchSize: 13, batches: 1, weights: onGpu, cache: onGpu, activations: onGpu },
    'test',
  );
  const measured = 584.1;
  const { tokensPerSecond } = predict(request, { ...policy, cpuAttention: false });
  expect(tokensPerSecond / measured).toBeGreaterThan(0.9);
  expect(tokensPerSecond / measured).toBeLessThan(1.1);
});

test('no block of a few rows more or fewer is faster, though not every size is on the grid', () => {
  const best = choosePolicy(request);
  expect([1, 2, 3, 4, 8, 12, 16]).not.toContain(best.policy.batchSize);
  const { schedule, batches } = best.policy;
  for (const step of [-3, -2, -1, 1, 2, 3]) {
    const batchSize = best.policy.batchSize + step;
    const other = choosePolicy({
      ...request,
      allow: { schedules: [schedule], batches, batchSize, cpuAttention: [false] },
    });
    expect(other.predicted.tokensPerSecond).toBeLessThanOrEqual(best.predicted.tokensPerSecond * 1.000001);
  }
});

test('squares that are larger than the default make no batches larger than the default', () => {
  const given = {
    shape: requireKnownShape('opt-1.3b'),
    hardware: CPU_MACHINE,
    workload: { promptTokens: 64, newTokens: 64 },
  };
  for (const tokensPerSquare of [512, 4096])
    expect(choosePolicy({ ...given, allow: { tokensPerSquare } }).policy.batchSize).toBeLessThanOrEqual(256);
  expect(choosePolicy({ ...given, allow: { tokensPerSquare: 16 } }).policy.batchSize).toBeLessThanOrEqual(16);
});
