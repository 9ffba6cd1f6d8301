import { describe, expect, test } from '@jest/globals';
import { parsePolicy } from '../../src/plan/Policy.js';
import { predict } from '../../src/plan/predict.js';
import { predictPipeline } from '../../src/plan/pipeline/predictPipeline.js';
import { requireKnownShape } from '../../src/plan/knownShapes.js';
import { unpredictedOf } from '../../src/plan/unpredicted.js';
import { CPU_MACHINE } from './support/hardware.js';

const request = {
  hardware: CPU_MACHINE,
  shape: requireKnownShape('opt-1.3b'),
  workload: { promptTokens: 64, newTokens: 16, rows: 16 },
};

describe('options of an engine in a policy', () => {
  test('are nothing where they are the defaults', () => {
    expect(unpredictedOf({})).toEqual([]);
    expect(unpredictedOf({ sparseAttention: 0.1, precision: 'default', gpuProducts: 'own' })).toEqual([]);
    expect(unpredictedOf({ sparseAttention: 0.1 }, 'flexgen-paper')).toEqual(['sparseAttention 0.1']);
  });

  test('else the prediction says that it is without them', () => {
    const policy = { batchSize: 16, gpuProducts: 'cublaslt', precision: 'float32' };
    const { warning, ...predicted } = predict(request, parsePolicy(policy, 'test'));
    expect(warning).toBe(
      "no cost model knows the policy's precision float32 and gpuProducts cublaslt, and the figures are without",
    );
    expect(predicted).toEqual(predict(request, parsePolicy({ batchSize: 16 }, 'test')));
    const small = { ...request, caps: { cpu: 2 ** 30 } };
    expect(predict(small, parsePolicy(policy, 'test')).warning).toMatch(/^the policy does not fit .*; no cost model/);
  });

  test('several machines refuse them', () => {
    const link = { bytesPerSecond: 1e9, latencySeconds: 0 };
    const machines = ['a', 'b'].map((name) => ({ name, hardware: CPU_MACHINE, link }));
    expect(() =>
      predictPipeline({ ...request, machines }, parsePolicy({ batches: 2, precision: 'float32' }, 'test')),
    ).toThrow('policy: found precision float32, which no cost model knows: expected a policy without it');
  });
});
