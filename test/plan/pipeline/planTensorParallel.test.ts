import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { UsageError } from '../../../src/errors/UsageError.js';
import type { PipelineMachine } from '../../../src/plan/pipeline/Machines.js';
import { messageSeconds } from '../../../src/plan/pipeline/messageSeconds.js';
import { planPipeline } from '../../../src/plan/pipeline/planPipeline.js';
import { planTensorParallel } from '../../../src/plan/pipeline/planTensorParallel.js';
import { builtIn, CPU_MACHINE } from '../support/hardware.js';
import { faster, machine, request } from '../support/machines.js';
import { tries } from '../../support/tries.js';

/** Memory for next to nothing. */
const TINY = { ...CPU_MACHINE, memory: { ...CPU_MACHINE.memory, cpuBytes: 2 ** 28, diskBytes: 0 } };
const NEAR = { bytesPerSecond: 1e10, latencySeconds: 1e-5 };
const FAR = { bytesPerSecond: 12e6, latencySeconds: 0.02 };

const over = (link: PipelineMachine['link'], count = 2): PipelineMachine[] =>
  Array.from({ length: count }, (_, index) => ({ ...machine(`m${index}`), link }));

describe('planTensorParallel', () => {
  test('one row has the memory bandwidth of all machines, which no pipeline gives it', () => {
    const one = { workload: { promptTokens: 100, newTokens: 100, rows: 1 }, allow: { batchSize: 1 } };
    const shared = planTensorParallel(request(over(NEAR), one));
    const divided = planPipeline(request(over(NEAR), { ...one, allow: { batchSize: 1, batches: 1 } }));
    expect(shared.tokensPerSecond).toBeGreaterThan(1.5 * divided.tokensPerSecond);
    expect(shared).toMatchObject({ shares: 2, batchSize: 1, batches: 1, rows: 1 });
    const four = planTensorParallel(request(over(NEAR, 4), one));
    // Half of the weights each, and messages of six steps a sum in place of one.
    expect(four.tokensPerSecond).toBeGreaterThan(1.1 * shared.tokensPerSecond);
    expect(four.messageSeconds).toBeGreaterThan(4 * shared.messageSeconds);
  });

  test('many rows over a slow link: layers are divided', () => {
    const given = request(over(FAR), { allow: {} });
    expect(planTensorParallel(given).tokensPerSecond).toBeLessThan(0.7 * planPipeline(given).tokensPerSecond);
    const { waitingSeconds, wallSeconds } = planTensorParallel(given);
    expect(waitingSeconds / wallSeconds).toBeGreaterThan(0.3);
  });

  test('a share of layers of unequal sizes is a share of the largest', () => {
    const { shape } = request(over(NEAR));
    const whole = shape.layers * shape.layerWeightBytes + shape.globalWeightBytes;
    const mixed = { ...shape, largestLayerWeightBytes: shape.layerWeightBytes * 1.05 };
    const holding = (cpuBytes: number): ReturnType<typeof planTensorParallel> => {
      const hardware = { ...CPU_MACHINE, memory: { ...CPU_MACHINE.memory, cpuBytes, diskBytes: 0 } };
      return planTensorParallel(
        request(
          over(NEAR).map((each) => ({ ...each, hardware })),
          { shape: mixed, allow: { batchSize: 8, batches: 2 } },
        ),
      );
    };
    expect(holding(0.85 * whole).batches).toBe(2);
    expect(() => holding(0.5 * whole)).toThrow(/do not hold a share/);
  });

  test('what an engine sends is the closed form: two sums a layer, and what is embedded', () => {
    const rows = { promptTokens: 64, newTokens: 1, rows: 8 };
    for (const [count, factor] of [
      [2, 1],
      [4, 1.5],
    ] as const) {
      const { sentBytes } = planTensorParallel(request(over(NEAR, count), { workload: rows }));
      expect(sentBytes).toBeCloseTo(8 * 64 * 4096 * 4 * (32 * 2 * factor + 1), -3);
    }
  });

  test('attention is divided by rows where one head of keys and values of long rows is the load', () => {
    const { shape } = request(over(NEAR));
    const multiquery = { ...shape, kvHeads: 1, contextTokens: 32_768 };
    const given = (promptTokens: number, link = NEAR): ReturnType<typeof planTensorParallel> =>
      planTensorParallel(
        request(over(link, 4), {
          shape: multiquery,
          workload: { promptTokens, newTokens: 256, rows: 64 },
          allow: { batchSize: 32, batches: 2 },
        }),
      );
    const long = given(16_000);
    expect(long.attention).toBe('rows');
    // Of short rows over a far link the exchanges cost more than the cache.
    expect(given(64, FAR).attention).toBe('heads');
    // A token of each layer sends 32 heads' queries and outputs, 3/8 of them each way; 1/4 keeps its keys and values.
    const [heads, layers, tokens] = [32 * 128, 32, 64 * (16_000 + 255)];
    expect(long.sentBytes).toBeCloseTo(tokens * 4 * (layers * (2 * 1.5 * 4096 + 2 * (3 / 8) * heads) + 4096), -6);
    expect(long.cacheBytes).toBe((64 / 4) * Math.ceil(16_255 / 32) * 32 * layers * 2 * 128 * 2);
  });

  test('rows are whole: where they do not divide evenly the engine that attends to the most is waited for', () => {
    const { shape } = request(over(NEAR));
    const of = 4;
    const given = (rows: number, attention?: 'heads' | 'rows'): ReturnType<typeof planTensorParallel> =>
      planTensorParallel(
        request(over(NEAR, of), {
          shape: { ...shape, kvHeads: 1, contextTokens: 32_768 },
          workload: { promptTokens: 30_000, newTokens: 2000, rows },
          allow: { batchSize: 8, batches: 1 },
          attention,
        }),
      );
    const row = Math.ceil(31_999 / 32) * 32 * 32 * 2 * 128 * 2;
    const cached = (rows: number): number => given(rows, 'rows').cacheBytes / row;
    expect([1, of, of + 1, 2 * of].map(cached)).toEqual([1, 1, 2, 2]);
    const seconds = (rows: number, attention: 'heads' | 'rows'): number => given(rows, attention).wallSeconds;
    // One row has its keys and values read by one engine, as each does by heads; and it is exchanged.
    expect(seconds(1, 'rows')).toBeGreaterThan(seconds(1, 'heads'));
    // One row more makes two in one engine, for which all others wait.
    expect(seconds(of + 1, 'rows') / seconds(of, 'rows')).toBeGreaterThan(1.5);
    const many = { promptTokens: 8000, newTokens: 24_000, rows: 32 };
    const fullShape = { ...shape, kvHeads: 1, contextTokens: 32_768 };
    const block = { batchSize: 32, batches: 1 };
    const full = request(over(NEAR, of), { shape: fullShape, workload: many, allow: block });
    expect(planTensorParallel(full).attention).toBe('rows');
    for (const link of [NEAR, FAR])
      for (const promptTokens of [64, 2000, 30_000])
        for (const kvHeads of [1, 8, shape.kvHeads])
          expect(
            planTensorParallel(
              request(over(link, of), {
                shape: { ...shape, kvHeads, contextTokens: 32_768 },
                workload: { promptTokens, newTokens: 64, rows: 1 },
                allow: {},
              }),
            ).attention,
          ).toBe('heads');
  });

  test('layers that do not divide evenly take as long as the largest share', () => {
    const one = { workload: { promptTokens: 100, newTokens: 100, rows: 1 }, allow: { batchSize: 1 } };
    const speed = (count: number): number => planTensorParallel(request(over(NEAR, count), one)).tokensPerSecond;
    // 32 heads over 3: 10, 11 and 11.
    expect(speed(3)).toBeGreaterThan(speed(2));
    expect(speed(3)).toBeLessThan(speed(4));
    const { shape } = request(over(NEAR));
    const multiquery = { ...shape, kvHeads: 1 };
    const cached = (of: number): number =>
      planTensorParallel(request(over(NEAR, of), { ...one, shape: multiquery })).tokensPerSecond;
    expect(cached(4)).toBeGreaterThan(cached(2));
  });

  test('sums of one batch are hidden behind the other one’s computing as far as a processor is free for them', () => {
    const free = { ...CPU_MACHINE, machine: { ...CPU_MACHINE.machine, processors: 4 } };
    const waits = (hardware: typeof CPU_MACHINE, batches = 2): number => {
      const machines = over({ bytesPerSecond: 1e9, latencySeconds: 1e-4 }).map((each) => ({ ...each, hardware }));
      const given = request(machines, { allow: { batchSize: 16 / batches, batches } });
      const { waitingSeconds, wallSeconds } = planTensorParallel(given);
      return waitingSeconds / wallSeconds;
    };
    // Now and then both want the processors at once.
    expect(waits(free)).toBeGreaterThan(0);
    expect(waits(free)).toBeLessThan(waits(free, 1) / 2);
    expect(waits(CPU_MACHINE)).toBeGreaterThan(waits(free));
  });

  test('messages are work: where all processors compute they take of it, and of few rows they are what takes time', () => {
    const link = { bytesPerSecond: 1e15, latencySeconds: 0 };
    const plan = (processors: number, batchSize: number, batches: number): ReturnType<typeof planTensorParallel> => {
      const hardware = { ...CPU_MACHINE, machine: { ...CPU_MACHINE.machine, processors } };
      const machines = over(link).map((each) => ({ ...each, hardware }));
      return planTensorParallel(request(machines, { allow: { batchSize, batches } }));
    };
    const [all, spare] = [plan(2, 64, 2), plan(4, 64, 2)];
    expect(all.messageSeconds).toBe(spare.messageSeconds);
    // Some of it would be waited for elsewhere.
    const more = (all.wallSeconds - spare.wallSeconds) / (all.messageSeconds / 2);
    expect(more).toBeGreaterThan(0.5);
    expect(more).toBeLessThan(1);
    // What comes is as much as what goes.
    expect(all.messageSeconds).toBeGreaterThan(messageSeconds(0, 2 * all.sentBytes));
    // Of the same rows a batch of one takes many more messages for the same bytes.
    const single = plan(4, 1, 1);
    expect(single.sentBytes).toBeCloseTo(spare.sentBytes, -3);
    const beside = ({ messageSeconds: seconds, sentBytes }: ReturnType<typeof planTensorParallel>): number =>
      seconds - messageSeconds(0, 2 * sentBytes);
    expect(beside(single)).toBeGreaterThan(10 * beside(spare));
    // Nothing hides one batch's messages, and they take longer where a machine has half a processor's time.
    expect(single.waitingSeconds).toBeCloseTo(single.messageSeconds, 3);
    expect(plan(0.5, 1, 1).waitingSeconds).toBeCloseTo(2 * single.messageSeconds, 3);
  });

  test('of drawn links no plan is faster than its link, its messages or one batch alone allow', () => {
    const { shape } = request(over(NEAR));
    fc.assert(
      fc.property(
        fc.record({
          bytesPerSecond: fc.double({ min: 1e6, max: 1e10, noNaN: true }),
          latencySeconds: fc.double({ min: 0, max: 0.05, noNaN: true }),
        }),
        fc.constantFrom(2, 4),
        fc.constantFrom(0.5, 1, 4),
        fc.constantFrom(1, 2),
        fc.constantFrom('heads' as const, 'rows' as const),
        (link, of, processors, batches, attention) => {
          const hardware = { ...CPU_MACHINE, machine: { ...CPU_MACHINE.machine, processors } };
          const plan = (slower: number): ReturnType<typeof planTensorParallel> =>
            planTensorParallel(
              request(
                over({ ...link, bytesPerSecond: link.bytesPerSecond / slower }, of).map((each) => ({
                  ...each,
                  hardware,
                })),
                {
                  shape: { ...shape, kvHeads: 1 },
                  workload: { promptTokens: 64, newTokens: 64, rows: 32 },
                  allow: { batchSize: 16, batches },
                  attention,
                },
              ),
            );
          const { wallSeconds, waitingSeconds, sentBytes, messageSeconds: messages } = plan(1);
          const slack = 1 + 1e-9;
          expect(wallSeconds * slack).toBeGreaterThanOrEqual(sentBytes / link.bytesPerSecond);
          expect(wallSeconds * slack).toBeGreaterThanOrEqual(messages * Math.max(1, 1 / processors));
          expect(waitingSeconds).toBeGreaterThanOrEqual(-1e-9 * wallSeconds);
          expect(plan(2).wallSeconds * slack).toBeGreaterThanOrEqual(wallSeconds);
        },
      ),
      { numRuns: tries(8, 60) },
    );
  });

  test('the slowest machine is waited for in every layer', () => {
    const [slow, fast] = [request([machine('a'), machine('b')]), request([machine('a'), machine('b', faster(3))])];
    expect(planTensorParallel(fast).tokensPerSecond / planTensorParallel(slow).tokensPerSecond).toBeCloseTo(1, 1);
  });

  test.each([
    [
      request(over(NEAR, 3), { shape: { ...request(over(NEAR)).shape, heads: 2, kvHeads: 1 } }),
      "tensorParallel.of: found 3, expected a number into which the model's 2 heads of 128 (1 of keys and values) divide",
    ],
    [
      request([machine('a'), machine('b', builtIn('flexgen-t4'))]),
      'machines: found one with a GPU, expected processors alone',
    ],
    [
      request([machine('a', TINY), machine('b', TINY)]),
      'machines: found 2 that do not hold a share of each layer of llama-2-7b each',
    ],
  ])('what does not go is refused', (given, message) => {
    expect(() => planTensorParallel(given)).toThrow(UsageError);
    expect(() => planTensorParallel(given)).toThrow(message);
  });
});
