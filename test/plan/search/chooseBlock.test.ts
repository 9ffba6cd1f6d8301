import { expect, test } from '@jest/globals';
import fc from 'fast-check';
import { chooseBlock } from '../../../src/plan/search/chooseBlock.js';
import { requireKnownShape } from '../../../src/plan/knownShapes.js';
import type { PlanRequest } from '../../../src/plan/PlanRequest.js';
import { predict } from '../../../src/plan/predict.js';
import { CPU_MACHINE } from '../support/hardware.js';

const onCpu = { gpu: 0, cpu: 1, disk: 0 };
const shares = fc.constantFrom(0, 0.25, 0.5, 1).map((disk) => ({ gpu: 0, cpu: 1 - disk, disk }));
const request = fc.record({
  hardware: fc.constant(CPU_MACHINE),
  shape: fc.constantFrom('opt-1.3b', 'opt-125m').map(requireKnownShape),
  workload: fc.record({
    promptTokens: fc.integer({ min: 1, max: 300 }),
    newTokens: fc.integer({ min: 2, max: 40 }),
    rows: fc.option(fc.integer({ min: 1, max: 100 }), { nil: undefined }),
  }),
  caps: fc.integer({ min: 1, max: 16 }).map((part) => ({ cpu: part * 2 ** 28 })),
  allow: fc.constant({ mostBatchSize: 32, mostBatches: 4 }),
});

test('the block fits, keeps what was settled, and no other block of its grid is clearly faster', () => {
  fc.assert(
    fc.property(request, shares, fc.boolean(), (base: PlanRequest, cache, weightsOpen) => {
      const settled = { cache, activations: onCpu, ...(!weightsOpen && { weights: { gpu: 0, cpu: 0.5, disk: 0.5 } }) };
      const best = chooseBlock(base, settled);
      const others = [1, 4, 32]
        .flatMap((batchSize) => [1, 4].map((batches) => ({ batchSize, batches })))
        .filter(
          ({ batchSize, batches }) =>
            batchSize <= (base.workload.rows ?? Infinity) && batches <= (base.workload.rows ?? Infinity),
        )
        .flatMap((block) =>
          [0, 0.3, 0.6, 1].map((disk) => ({
            schedule: 'diagonal' as const,
            ...block,
            ...settled,
            weights: settled.weights ?? { gpu: 0, cpu: 1 - disk, disk },
            compressWeights: 'none' as const,
            compressCache: 'none' as const,
            cpuAttention: true,
          })),
        )
        .map((policy) => predict(base, policy))
        .filter(({ fits }) => fits);
      if (best === undefined) {
        expect(others).toEqual([]);
        return;
      }
      expect(best.predicted.fits).toBe(true);
      expect(best.policy).toMatchObject(settled);
      expect(predict(base, best.policy).tokensPerSecond).toBeCloseTo(best.predicted.tokensPerSecond, 6);
      for (const { tokensPerSecond } of others)
        expect(best.predicted.tokensPerSecond).toBeGreaterThanOrEqual(tokensPerSecond * 0.98);
    }),
    { numRuns: 40, endOnFailure: true },
  );
});

test('what is settled of the block stands', () => {
  const base = {
    hardware: CPU_MACHINE,
    shape: requireKnownShape('opt-125m'),
    workload: { promptTokens: 10, newTokens: 10 },
    allow: { batchSize: 3, batches: 5, schedules: ['zigzag' as const] },
  };
  expect(chooseBlock(base, { cache: onCpu, activations: onCpu })?.policy).toMatchObject({
    batchSize: 3,
    batches: 5,
    schedule: 'zigzag',
    weights: onCpu,
  });
});
