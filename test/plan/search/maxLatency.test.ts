import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { MemoryBudgetError } from '../../../src/errors/MemoryBudgetError.js';
import { UsageError } from '../../../src/errors/UsageError.js';
import { requireKnownShape } from '../../../src/plan/knownShapes.js';
import type { PlanRequest } from '../../../src/plan/PlanRequest.js';
import { blockSecondsOf, predict } from '../../../src/plan/predict.js';
import { chooseBlock } from '../../../src/plan/search/chooseBlock.js';
import { choosePolicy } from '../../../src/plan/search/choosePolicy.js';
import { slotsOf, type Policy } from '../../../src/plan/Policy.js';
import { tries } from '../../support/tries.js';
import { builtIn, CPU_MACHINE, flexgenPolicy } from '../support/hardware.js';

const T4 = builtIn('flexgen-t4');
const request: PlanRequest = {
  hardware: T4,
  allow: { schedules: ['zigzag'], cpuAttention: [true] },
  shape: requireKnownShape('opt-6.7b'),
  workload: { promptTokens: 128, newTokens: 16 },
};
/** Streams from disk. */
const small: PlanRequest = {
  hardware: CPU_MACHINE,
  shape: { ...requireKnownShape('opt-1.3b'), weightType: 'Q4_0' },
  workload: { promptTokens: 32, newTokens: 16 },
  caps: { cpu: 1.5 * 2 ** 30 },
};
const inMemory = { gpu: 0, cpu: 1, disk: 0 };

function leastOf(of: PlanRequest): number {
  try {
    choosePolicy({ ...of, maxLatencySeconds: 1e-9 });
  } catch (error) {
    if (!(error instanceof UsageError)) throw error;
    const [, seconds] =
      /^maxLatency: found 1e-9, expected at least ([\d.]+) seconds, the least that any block takes$/.exec(
        error.message,
      ) ?? [];
    return Number(seconds);
  }
  throw new Error('a block that takes no time');
}

describe("a block's latency", () => {
  test('is what as many rows as it has places take, from the first prompt to the last token', () => {
    const policy = flexgenPolicy(8, 3, [0, 100, 0, 100, 0, 100]);
    const block = predict({ ...request, workload: { ...request.workload, rows: 24 } }, policy).wallSeconds;
    for (const rows of [undefined, 24, 1000])
      expect(blockSecondsOf({ ...request, workload: { ...request.workload, rows } }, policy)).toBe(block);
    // Of fewer rows than places it is theirs.
    const few = { ...request, workload: { ...request.workload, rows: 5 } };
    expect(blockSecondsOf(few, policy)).toBe(predict(few, policy).wallSeconds);
  });

  test('of a diagonal block, too: rows that begin together, and none behind them', () => {
    const policy: Policy = { ...flexgenPolicy(8, 2, [0, 100, 0, 100, 0, 100]), schedule: 'diagonal' };
    const alone = { ...small, workload: { ...small.workload, rows: 16 } };
    expect(blockSecondsOf(small, policy)).toBe(predict(alone, policy).wallSeconds);
    expect(blockSecondsOf(small, policy)).toBeLessThan(predict(small, policy).wallSeconds);
  });
});

describe.each([
  ['a GPU', request],
  ['a processor and a disk', small],
  ["FlexGen's model", { ...request, shape: requireKnownShape('opt-30b'), costModel: 'flexgen' }],
] as readonly (readonly [string, PlanRequest])[])('a search bound by latency, on %s', (_, of) => {
  const free = choosePolicy(of);
  const without = blockSecondsOf(of, free.policy);

  test('gives the best plan where that keeps the bound', () => {
    const { policy, predicted } = choosePolicy({ ...of, maxLatencySeconds: without * 1.0001 });
    expect(predicted.tokensPerSecond).toBeGreaterThanOrEqual(free.predicted.tokensPerSecond * 0.999);
    expect(predicted.latencySeconds).toBe(blockSecondsOf(of, policy));
    expect(free.predicted.latencySeconds).toBeUndefined();
  });

  test('keeps every bound from the least on, and loses throughput the tighter it is', () => {
    const least = leastOf(of);
    expect(least).toBeLessThan(without);
    let before = 0;
    for (const part of [0, 0.3, 1]) {
      const maxLatencySeconds = least + (without - least) * part;
      const { policy, predicted, runnersUp } = choosePolicy({ ...of, maxLatencySeconds });
      expect(predicted.fits).toBe(true);
      expect(blockSecondsOf(of, policy)).toBeLessThanOrEqual(maxLatencySeconds);
      for (const other of runnersUp) expect(blockSecondsOf(of, other.policy)).toBeLessThanOrEqual(maxLatencySeconds);
      // The search is no proof: what a tighter bound found is near what a wider one finds.
      expect(predicted.tokensPerSecond).toBeGreaterThanOrEqual(before * 0.97);
      before = predicted.tokensPerSecond;
    }
  });
});

test('no block that was tried by hand is faster within the bound by more than a little', () => {
  fc.assert(
    fc.property(
      fc.integer({ min: 1, max: 48 }),
      fc.integer({ min: 1, max: 6 }),
      fc.integer({ min: 0, max: 100 }),
      (batchSize, batches, percent) => {
        const policy = flexgenPolicy(batchSize, batches, [0, percent, 0, 100, 0, 100]);
        const predicted = predict(small, policy);
        fc.pre(predicted.fits);
        const maxLatencySeconds = blockSecondsOf(small, policy);
        const best = choosePolicy({ ...small, maxLatencySeconds });
        expect(best.predicted.tokensPerSecond).toBeGreaterThan(predicted.tokensPerSecond * 0.97);
      },
    ),
    { numRuns: tries(3, 8) },
  );
});

test('a block is placed for its latency where the placement for throughput takes too long', () => {
  const diagonal: PlanRequest = {
    hardware: T4,
    shape: requireKnownShape('opt-6.7b'),
    allow: { schedules: ['diagonal'], cpuAttention: [true], batchSize: 8, batches: 1 },
    workload: { promptTokens: 512, newTokens: 4 },
  };
  // The block that refills at once is fastest with weights placed such that a batch by itself takes longer.
  const least = leastOf(diagonal);
  const { policy, predicted } = choosePolicy({ ...diagonal, maxLatencySeconds: least });
  expect(predicted.fits).toBe(true);
  expect(blockSecondsOf(diagonal, policy)).toBeLessThanOrEqual(least);
  for (const percent of [0, 10, 20, 30, 40, 50, 60, 70, 80, 90, 100]) {
    const byHand: Policy = { ...flexgenPolicy(8, 1, [percent, 100 - percent, 0, 100, 0, 100]), schedule: 'diagonal' };
    if (predict(diagonal, byHand).fits) expect(blockSecondsOf(diagonal, byHand)).toBeGreaterThan(least * 0.999);
  }
  expect(least).toBeLessThan(blockSecondsOf(diagonal, choosePolicy(diagonal).policy) * 0.99);
});

describe('refusals', () => {
  test('memory that nothing fits in is told before latency', () => {
    expect(() => choosePolicy({ ...small, caps: { cpu: 2 ** 26 }, maxLatencySeconds: 1 })).toThrow(MemoryBudgetError);
  });

  test.each([0, -1, Infinity, NaN])('a bound of %p', (maxLatencySeconds) => {
    expect(() => choosePolicy({ ...small, maxLatencySeconds })).toThrow(/^request\.maxLatencySeconds: found /);
  });
});

describe('a block on settled shares', () => {
  const shares = { cache: inMemory, activations: inMemory };

  test('keeps the bound with fewer rows, or is refused with the least', () => {
    const free = chooseBlock(small, shares);
    if (free === undefined) throw new Error('nothing fits');
    const without = blockSecondsOf(small, free.policy);
    const bound = without / 2;
    const kept = chooseBlock({ ...small, maxLatencySeconds: bound }, shares);
    expect(kept?.predicted.latencySeconds).toBeLessThanOrEqual(bound);
    const places = ({ policy }: { readonly policy: Policy }): number => slotsOf(policy) * policy.batchSize;
    expect(kept && places(kept)).toBeLessThan(places(free));
    expect(() => chooseBlock({ ...small, maxLatencySeconds: 1e-6 }, shares)).toThrow(
      /^maxLatency: found 0\.000001, expected at least [\d.]+ seconds, the least that any block takes$/,
    );
  });
});
