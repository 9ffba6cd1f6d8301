import { describe, expect, test } from '@jest/globals';
import { choosePolicy } from '../../../src/plan/search/choosePolicy.js';
import { requireKnownShape } from '../../../src/plan/knownShapes.js';
import type { PlanRequest } from '../../../src/plan/PlanRequest.js';
import type { Policy } from '../../../src/plan/Policy.js';
import { predict, settingOf } from '../../../src/plan/predict.js';
import { predictRun } from '../../../src/engine/calibration/predictRun.js';
import { simulatePlan } from '../../../src/simulatePlan.js';
import { CPU_MACHINE } from '../support/hardware.js';

const shape = requireKnownShape('opt-125m');
const inMemory = { gpu: 0, cpu: 1, disk: 0 };
const streaming: Policy = {
  schedule: 'diagonal',
  batchSize: 32,
  batches: 1,
  tokensPerSquare: 64,
  weights: { gpu: 0, cpu: 0, disk: 1 },
  cache: inMemory,
  activations: inMemory,
  compressWeights: 'none',
  compressCache: 'none',
  cpuAttention: true,
};
/** Four pages of 32 tokens a row. */
const whole: PlanRequest = {
  hardware: { ...CPU_MACHINE, usableFraction: 1 },
  shape,
  workload: { promptTokens: 64, newTokens: 64, rows: 256 },
};
const PAGE_BYTES = 32 * shape.layers * 2 * shape.hiddenSize * 2;
/** The machine with memory for so many pages beside everything else. */
const withPages = (pages: number, policy = streaming): PlanRequest => {
  const all = predict(whole, policy).memoryBytes.cpu;
  return { ...whole, caps: { cpu: all - (policy.batchSize * policy.batches * 4 - pages) * PAGE_BYTES } };
};

describe('a diagonal block that memory does not hold wholly', () => {
  test('has its rows come in as pages come free, and is predicted as the run will be', () => {
    const tight = withPages(40);
    const { workload } = settingOf(tight, streaming).setting;
    expect(workload.cachePages).toBe(40);
    const predicted = predict(tight, streaming);
    expect(predicted.fits).toBe(true);
    expect(predicted.memoryBytes.cpu).toBeLessThanOrEqual(tight.caps?.cpu ?? 0);
    const { schedule, ...block } = streaming;
    const pages = { pages: 40, rules: { pageTokens: 32, diskShare: 0, mostDiskPages: 0 } };
    const run = predictRun(tight, block, schedule, { rows: 256, promptTokens: 256 * 64, newTokens: 256 * 64 }, pages);
    expect(predicted.tokensPerSecond).toBe(run?.tokensPerSecond);
  });

  test('is faster the more pages there are, and faster than the block whose rows all fit', () => {
    const speeds = [4, 20, 40, 80, 128].map((pages) => predict(withPages(pages), streaming).tokensPerSecond);
    expect(speeds).toEqual([...speeds].sort((a, b) => a - b));
    expect(speeds[4]).toBeGreaterThan(3 * (speeds[0] ?? Infinity));
    const tight = withPages(40);
    const fitting = { ...streaming, batchSize: 10 };
    expect(settingOf(tight, fitting).setting.workload.cachePages).toBeUndefined();
    expect(predict(tight, streaming).tokensPerSecond).toBeGreaterThan(1.1 * predict(tight, fitting).tokensPerSecond);
  });

  test('does not fit where not one row does; neither does a zigzag block, or one with cache on disk, that lacks a page', () => {
    expect(predict(withPages(3), streaming).fits).toBe(false);
    expect(predict(withPages(4), streaming).fits).toBe(true);
    for (const other of [
      { ...streaming, schedule: 'zigzag' as const },
      { ...streaming, cache: { gpu: 0, cpu: 0.5, disk: 0.5 } },
    ]) {
      const { cpu } = predict(whole, other).memoryBytes;
      expect(predict({ ...whole, caps: { cpu } }, other).fits).toBe(true);
      expect(predict({ ...whole, caps: { cpu: cpu - PAGE_BYTES } }, other).fits).toBe(false);
    }
  });

  test('takes about as long, with as many pages, when it is simulated task by task', async () => {
    const tight = withPages(40);
    const simulated = await simulatePlan(tight, streaming);
    expect(simulated.peakPages).toBeLessThanOrEqual(40);
    expect(simulated.newTokens).toBe(256 * 64);
    expect(predict(tight, streaming).wallSeconds / simulated.seconds).toBeGreaterThan(0.8);
    expect(predict(tight, streaming).wallSeconds / simulated.seconds).toBeLessThan(1.2);
  });

  test('is what the search chooses where layers stream and memory is scarce', () => {
    const allow = { tokensPerSquare: 64, mostBatchSize: 64 };
    const tight = { ...withPages(40), allow };
    const { policy, predicted, readsOnly } = choosePolicy(tight);
    expect(
      settingOf(tight, policy).setting.workload.cachePages ??
        settingOf(tight, readsOnly?.policy ?? policy).setting.workload.cachePages,
    ).toBeDefined();
    expect(predicted.tokensPerSecond).toBeGreaterThanOrEqual(predict(tight, streaming).tokensPerSecond);
    expect(readsOnly?.policy.cache.disk).toBe(0);
    expect(readsOnly?.predicted.tokensPerSecond).toBeGreaterThanOrEqual(predict(tight, streaming).tokensPerSecond);
    // A block of 64 rows that somebody has settled fits in no other way.
    const settled = choosePolicy({
      ...withPages(40),
      allow: { batchSize: 64, batches: 1, schedules: ['diagonal'], tokensPerSquare: 64 },
    });
    expect(settled.policy).toMatchObject({ batchSize: 64, batches: 1, cache: inMemory });
  });
});
