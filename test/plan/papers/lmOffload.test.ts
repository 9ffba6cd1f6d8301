import { describe, expect, test } from '@jest/globals';
import { requireKnownShape } from '../../../src/plan/knownShapes.js';
import { initSeconds } from '../../../src/plan/papers/lmOffload/lmOffloadModel.js';
import { dequantiseOnGpu, quantiseOnCpu, quantiseOnGpu } from '../../../src/plan/papers/lmOffload/quantisation.js';
import { predict } from '../../../src/plan/predict.js';
import { builtIn, flexgenPolicy } from '../support/hardware.js';

const hardware = builtIn('lm-offload-a100');
const request = {
  hardware,
  shape: requireKnownShape('opt-30b'),
  workload: { promptTokens: 64, newTokens: 128 },
  costModel: 'lm-offload' as const,
};
const policy = (more: object) => flexgenPolicy(64, 10, [55, 45, 0, 100, 0, 100], more);

describe("LM-Offload's model", () => {
  // Its figure 3: tokens/s of OPT-30B with attention on either side and with a 4-bit cache.
  test.each([
    [{ cpuAttention: true }, 41],
    [{ cpuAttention: false }, 46],
    [{ cpuAttention: false, compressCache: '4bit' as const }, 82],
  ])('figure 3, %j', (more, measured) => {
    expect(Math.abs(predict(request, policy(more)).tokensPerSecond / measured - 1)).toBeLessThan(0.05);
  });

  test('compression never helps where attention stays with the cache (observation 1)', () => {
    const plain = predict(request, policy({ cpuAttention: true })).tokensPerSecond;
    expect(predict(request, policy({ cpuAttention: true, compressCache: '4bit' })).tokensPerSecond).toBeLessThan(plain);
  });

  test('equations 12 to 16 and 20 to 24, term by term', () => {
    const { lmOffload: of } = hardware;
    if (of === undefined) throw new Error('no features');
    expect(quantiseOnCpu(1e9, of)).toBeCloseTo(
      1e9 / of.cpuHertz + 3e9 / of.cpuFlopsPerSecond + 1e9 / of.cpuMemoryBytesPerSecond,
      12,
    );
    expect(quantiseOnGpu(1e9, of) - dequantiseOnGpu(1e9, of)).toBeCloseTo(1e9 / of.gpuHertz, 12);
    const setting = { ...request, block: policy({ compressWeights: '4bit' as const }) };
    const weights = 12 * 7168 * 7168;
    expect(initSeconds(setting, 0.45)).toBeCloseTo(
      (2 * weights * 48) / of.diskToCpuBytesPerSecond + 48 * quantiseOnCpu(weights * 0.45, of),
      9,
    );
  });
});
