import { describe, expect, test } from '@jest/globals';
import { parsePolicy, type Policy } from '../../../src/plan/Policy.js';
import { planPipeline } from '../../../src/plan/pipeline/planPipeline.js';
import { predictPipeline } from '../../../src/plan/pipeline/predictPipeline.js';
import { machine, request, scarce } from '../support/machines.js';

const policy = (more: Partial<Policy> = {}): Policy => parsePolicy({ batchSize: 8, batches: 4, ...more }, 'test');
const two = request([machine('a'), machine('b')]);

describe('predictPipeline', () => {
  test('a plan that was found is predicted as it was planned', () => {
    const planned = planPipeline({ ...two, allow: { batchSize: 8, batches: 4 } });
    const [stage] = planned.stages;
    if (!stage) throw new Error('no stage');
    const predicted = predictPipeline(two, stage.policy);
    // It divides by seconds, and the last machine has the head as well.
    expect(predicted.stages.map(({ layers }) => layers.count)).toEqual([16, 16]);
    expect(predicted.tokensPerSecond / planned.tokensPerSecond).toBeGreaterThan(0.95);
    expect(predicted.tokensPerSecond / planned.tokensPerSecond).toBeLessThanOrEqual(1.001);
    expect(predicted).toMatchObject({ batchSize: 8, batches: 4, microBatches: 4, rows: 128 });
  });

  test('batches of one micro-batch share the reading of weights', () => {
    const streaming = request([machine('a', scarce), machine('b', scarce)]);
    const disk = policy({ weights: { gpu: 0, cpu: 0, disk: 1 } });
    const [each, pairs, one] = [4, 2, 1].map((microBatches) => predictPipeline(streaming, disk, { microBatches }));
    const busy = (plan: typeof each): number => plan?.stages[0]?.busySeconds ?? NaN;
    expect(busy(pairs) / busy(each)).toBeGreaterThan(0.45);
    expect(busy(pairs) / busy(each)).toBeLessThan(0.6);
    expect(pairs?.tokensPerSecond ?? 0).toBeGreaterThan(1.7 * (each?.tokensPerSecond ?? Infinity));
    expect(one?.tokensPerSecond).toBe(one?.inTurnTokensPerSecond);
    expect(one?.microBatches).toBe(1);
  });

  test('prompts and new tokens: what each takes, at once and in turn', () => {
    const block = { ...two, workload: { promptTokens: 64, newTokens: 16, rows: 32 } };
    for (const microBatches of [4, 1]) {
      const [whole, prompts] = [16, 1].map((newTokens) =>
        predictPipeline(
          { ...block, workload: { ...block.workload, newTokens } },
          policy({ schedule: 'zigzag', tokensPerSquare: 512 }),
          { microBatches },
        ),
      );
      if (!whole || !prompts) throw new Error('no plan');
      expect(prompts.prefillSeconds).toBeCloseTo(prompts.wallSeconds, 9);
      expect(whole.prefillSeconds / prompts.wallSeconds).toBeCloseTo(1, 2);
      expect(whole.wallSeconds).toBeGreaterThan(1.2 * whole.prefillSeconds);
    }
  });

  test.each([
    [policy({ schedule: 'row' }), {}, /policy: found the schedule row, which has one batch at a time/],
    [policy(), { microBatches: 3 }, /microBatches: found 3, expected a divisor of the 4 batches/],
    [policy(), { microBatches: 0 }, /settled.microBatches: found 0/],
    [policy({ weights: { gpu: 1, cpu: 0, disk: 0 } }), {}, /weights.gpu 1, expected 0: "two cores" has no GPU/],
    [{ ...policy(), batchSize: 0 }, {}, /policy.batchSize: found 0/],
  ])('what makes no sense is refused: %#', (bad, settled, words) => {
    expect(() => predictPipeline(two, bad, settled)).toThrow(words);
  });
});
