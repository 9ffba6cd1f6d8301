import { describe, expect, test } from '@jest/globals';
import { UsageError } from '../../../src/errors/UsageError.js';
import type { PipelineMachine } from '../../../src/plan/pipeline/Machines.js';
import { messageSeconds } from '../../../src/plan/pipeline/messageSeconds.js';
import { planPrompts } from '../../../src/plan/pipeline/planPrompts.js';
import { builtIn, CPU_MACHINE } from '../support/hardware.js';
import { faster, machine, request } from '../support/machines.js';

const NEAR = { bytesPerSecond: 1e10, latencySeconds: 1e-5 };
const FAR = { bytesPerSecond: 1e6, latencySeconds: 0.02 };
const TINY = { ...CPU_MACHINE, memory: { ...CPU_MACHINE.memory, cpuBytes: 2 ** 28, diskBytes: 0 } };

const two = (link: PipelineMachine['link'], second = CPU_MACHINE): PipelineMachine[] => [
  { ...machine('a'), link },
  { ...machine('b', second), link },
];
const LONG = { workload: { promptTokens: 1000, newTokens: 100, rows: 64 }, allow: { batchSize: 4, batches: 1 } };

describe('planPrompts', () => {
  test('takes as long as the slowest of prompts, link and new tokens, and until the first pages have come', () => {
    for (const link of [NEAR, FAR])
      for (const times of [1, 4, 100]) {
        const plan = planPrompts(request(two(link, faster(times)), LONG));
        const { wallSeconds, linkSeconds, generates, prompts, rows } = plan;
        expect(wallSeconds).toBeGreaterThan(Math.max(linkSeconds, generates.busySeconds, prompts.busySeconds));
        // The last row is still to be generated when all have come.
        expect(wallSeconds).toBeLessThan(
          1.5 * Math.max(linkSeconds, generates.busySeconds, prompts.busySeconds) + generates.busySeconds,
        );
        expect(plan.tokensPerSecond).toBeCloseTo((rows * 100) / wallSeconds, 6);
      }
  });

  test('what crosses the link is the closed form: keys and values of all layers, in whole pages', () => {
    const { shape } = request(two(NEAR));
    const { bytesPerPrompt, linkSeconds } = planPrompts(request(two(NEAR), LONG));
    const page = shape.layers * shape.kvHeads * shape.headDim * 2 * 2 * 32;
    expect(bytesPerPrompt).toBe(Math.ceil(999 / 32) * page);
    expect(linkSeconds).toBeCloseTo((64 * bytesPerPrompt) / 1e10, 6);
  });

  test('a machine that multiplies faster makes it pay; of equal ones whole rows are better divided', () => {
    const equal = planPrompts(request(two(NEAR), LONG));
    expect(equal.tokensPerSecond).toBeLessThanOrEqual(equal.shardsTokensPerSecond);
    expect(equal.tokensPerSecond).toBeGreaterThan(equal.aloneTokensPerSecond);
    const fast = planPrompts(request(two(NEAR, faster(10)), LONG));
    expect(fast.tokensPerSecond).toBeGreaterThan(equal.tokensPerSecond);
  });

  test('where all processors compute, one of them works on pages meanwhile', () => {
    const busy = (processors: number): { readonly seconds: readonly number[]; readonly bytes: number } => {
      const hardware = { ...CPU_MACHINE, machine: { ...CPU_MACHINE.machine, processors } };
      const machines = two({ bytesPerSecond: 1e15, latencySeconds: 0 }, hardware).map((each) => ({
        ...each,
        hardware,
      }));
      const { generates, prompts, bytesPerPrompt } = planPrompts(request(machines, LONG));
      return { seconds: [generates.busySeconds, prompts.busySeconds], bytes: bytesPerPrompt };
    };
    const [all, spare] = [busy(2), busy(4)];
    // A prompt, and its pages in messages of 4 MiB.
    const work = (64 * messageSeconds(1 + Math.ceil(all.bytes / 2 ** 22), all.bytes)) / 2;
    for (const [at, seconds] of all.seconds.entries())
      expect(seconds - (spare.seconds[at] ?? NaN)).toBeCloseTo(work, 6);
  });

  test('the bottleneck is named', () => {
    expect(planPrompts(request(two(FAR), LONG)).bottleneck).toBe('the link after b');
    const short = { workload: { promptTokens: 4, newTokens: 200, rows: 64 }, allow: LONG.allow };
    expect(planPrompts(request(two(NEAR), short)).bottleneck).toBe('a');
    const long = { workload: { promptTokens: 2000, newTokens: 2, rows: 64 }, allow: LONG.allow };
    expect(planPrompts(request(two(NEAR), long)).bottleneck).toBe('b');
  });

  test.each([
    [request([...two(NEAR), machine('c')]), 'machines: found 3, expected two'],
    [request([machine('a'), machine('b', builtIn('flexgen-t4'))]), 'machines: found one with a GPU'],
    [request(two(NEAR, TINY)), 'machines: found b, which does not hold llama-2-7b'],
    [
      request(two(NEAR), { workload: { promptTokens: 1, newTokens: 5, rows: 4 } }),
      'promptTokens: found 1, expected at least 2',
    ],
    [
      request(two(NEAR), {
        shape: { ...request(two(NEAR)).shape, contextTokens: 8192 },
        workload: { promptTokens: 4098, newTokens: 5, rows: 4 },
        allow: { batchSize: 1, batches: 1 },
      }),
      'promptTokens: found 4098, expected at most 4097',
    ],
  ])('what does not go is refused', (given, message) => {
    expect(() => planPrompts(given)).toThrow(UsageError);
    expect(() => planPrompts(given)).toThrow(message);
  });
});
