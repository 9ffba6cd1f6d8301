import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { requireKnownShape } from '../../src/plan/knownShapes.js';
import type { PlanRequest } from '../../src/plan/PlanRequest.js';
import { SCHEDULE_NAMES } from '../../src/engine/schedules/blockSchedules.js';
import type { Policy } from '../../src/plan/Policy.js';
import { predict } from '../../src/plan/predict.js';
import { countSweeps } from '../../src/plan/model/countSweeps.js';
import { simulatePlan } from '../../src/simulatePlan.js';
import { builtIn, CPU_MACHINE } from './support/hardware.js';

const shape = requireKnownShape('opt-125m');
const inMemory = { gpu: 0, cpu: 1, disk: 0 };
const resident: Policy = {
  schedule: 'diagonal',
  batchSize: 32,
  batches: 1,
  tokensPerSquare: 256,
  weights: inMemory,
  cache: inMemory,
  activations: inMemory,
  compressWeights: 'none',
  compressCache: 'none',
  cpuAttention: true,
};
const streaming: Policy = { ...resident, weights: { gpu: 0, cpu: 0, disk: 1 } };
/** Half of the cache on disk, in blocks of two batches. */
const spilled: Policy = { ...resident, schedule: 'zigzag', batches: 2, cache: { gpu: 0, cpu: 0.5, disk: 0.5 } };
const apart: PlanRequest = {
  hardware: { ...CPU_MACHINE, usableFraction: 1 },
  shape,
  workload: { promptTokens: 420, newTokens: 16, rows: 128 },
};
const shared: PlanRequest = { ...apart, workload: { ...apart.workload, sharedPrefixTokens: 400 } };

test('sweeps count a prefix once, and what rows look at of it apart', () => {
  const count = fc.integer({ min: 1, max: 6 });
  fc.assert(
    fc.property(
      fc.constantFrom(...SCHEDULE_NAMES),
      fc.nat(50),
      fc.integer({ min: 1, max: 30 }),
      count,
      count,
      count,
      fc.nat(30),
      (name, prefix, own, newTokens, batchSize, batches, room) => {
        const rows = batchSize * batches * 2;
        const workload = { promptTokens: prefix + own, newTokens, sharedPrefixTokens: prefix, rows };
        const slots = name === 'row' ? 1 : batches;
        const classes = countSweeps(workload, {
          schedule: name,
          batchSize,
          batches: slots,
          compressWeights: 'none',
          compressCache: 'none',
          cpuAttention: true,
          tokensPerSquare: batchSize + room,
        });
        const total = (field: keyof (typeof classes)[number]['load']): number =>
          classes.reduce((sum, { sweeps, squares, load }) => sum + sweeps * squares * load[field], 0);
        const decoded = rows * (newTokens - 1);
        const triangle = (tokens: number): number => (tokens * (tokens + 1)) / 2;
        expect(total('promptTokens')).toBeCloseTo(prefix + rows * own, 6);
        expect(total('promptKeys')).toBeCloseTo(triangle(prefix) + rows * triangle(own), 6);
        expect(total('decodeRows')).toBeCloseTo(decoded, 6);
        expect(total('decodeKeys')).toBeCloseTo(rows * (triangle(own + newTokens - 1) - triangle(own)), 6);
        expect(total('sharedKeys')).toBeCloseTo((rows * own + decoded) * prefix, 6);
        expect(total('sampledRows')).toBeCloseTo(rows * newTokens, 6);
      },
    ),
  );
});

describe.each([
  ['in memory', resident],
  ['with weights that stream', streaming],
  ['with half of the cache on disk', spilled],
])('a shared prefix, %s', (_, policy) => {
  test('is computed once and kept once', () => {
    const [one, each] = [predict(shared, policy), predict(apart, policy)];
    // 36 of 436 tokens are a row's own.
    expect(one.wallSeconds).toBeLessThan(each.wallSeconds / 3);
    expect(one.memoryBytes.cpu + one.memoryBytes.disk).toBeLessThan(each.memoryBytes.cpu + each.memoryBytes.disk);
    expect(predict({ ...shared, caps: { cpu: one.memoryBytes.cpu } }, policy).fits).toBe(true);
    expect(predict({ ...apart, caps: { cpu: one.memoryBytes.cpu } }, { ...policy, schedule: 'zigzag' }).fits).toBe(
      false,
    );
  });

  test('takes about as long when it is simulated task by task', async () => {
    const [predicted, simulated] = [predict(shared, policy), await simulatePlan(shared, policy)];
    expect(predicted.wallSeconds / simulated.seconds).toBeGreaterThan(0.8);
    expect(predicted.wallSeconds / simulated.seconds).toBeLessThan(1.2);
    // 12 or 13 pages of 32 tokens, and two or three for each row that may be there at once.
    expect(simulated.peakPages).toBeLessThanOrEqual(13 + 3 * 2 * policy.batchSize * policy.batches);
  });
});

test('the more of the prompts is shared, the faster it is; nothing shared is as if nobody had said so', () => {
  const seconds = [0, 100, 200, 300, 419].map(
    (sharedPrefixTokens) =>
      predict({ ...apart, workload: { ...apart.workload, sharedPrefixTokens } }, resident).wallSeconds,
  );
  expect(seconds[0]).toBe(predict(apart, resident).wallSeconds);
  expect(seconds).toEqual([...seconds].sort((a, b) => b - a));
});

describe('on a GPU', () => {
  const there = { gpu: 1, cpu: 0, disk: 0 };
  const policy: Policy = { ...resident, schedule: 'zigzag', weights: there, cache: there, activations: there };
  const hardware = builtIn('flexgen-t4');

  const half = { gpu: 0.5, cpu: 0.5, disk: 0 };

  // The processor attends to what is in memory for each row anew.
  const cases = [
    ['all of the cache there', there, 2.5],
    ['half of it in memory', half, 1.4],
  ] as const;

  test.each(cases)('a prefix is computed once and kept once: %s', async (_, cache, times) => {
    const request = { ...shared, hardware };
    const [one, each] = [predict(request, { ...policy, cache }), predict({ ...apart, hardware }, { ...policy, cache })];
    expect(one.wallSeconds).toBeLessThan(each.wallSeconds / times);
    expect(one.memoryBytes.gpu).toBeLessThan(each.memoryBytes.gpu);
    const { seconds } = await simulatePlan(request, { ...policy, cache });
    expect(one.wallSeconds / seconds).toBeGreaterThan(0.8);
    expect(one.wallSeconds / seconds).toBeLessThan(1.2);
  });

  test('but beside pages on disk', () => {
    const spilling = { ...policy, cache: { gpu: 0.5, cpu: 0, disk: 0.5 } };
    expect(predict({ ...shared, hardware }, spilling).wallSeconds).toBe(
      predict({ ...apart, hardware }, spilling).wallSeconds,
    );
  });
});

test.each([
  ['flexgen', 'flexgen-t4'],
  ['lm-offload', 'lm-offload-a100'],
] as const)("the papers' models know nothing of it: %s", (costModel, machine) => {
  const hardware = builtIn(machine);
  const onGpu: Policy = { ...resident, schedule: 'zigzag', cpuAttention: false };
  // The model's own figure: what the machine can do at most depends on what is shared.
  const promised = (workload: typeof shared): number => {
    const { tokensPerSecond, promisedTokensPerSecond } = predict({ ...workload, hardware, costModel }, onGpu);
    return promisedTokensPerSecond ?? tokensPerSecond;
  };
  expect(promised(shared)).toBe(promised(apart));
});
