import { describe, expect, test } from '@jest/globals';
import type { PipelineMachine } from '../../../src/plan/pipeline/Machines.js';
import type { PipelineRequest } from '../../../src/plan/pipeline/PipelineRequest.js';
import { planPipeline, planPipelineInParts } from '../../../src/plan/pipeline/planPipeline.js';
import { CPU_MACHINE } from '../support/hardware.js';
import { faster, LINK, machine, request, scarce } from '../support/machines.js';

const layersOf = (plan: ReturnType<typeof planPipeline>): number[] => plan.stages.map(({ layers }) => layers.count);

describe('planPipeline', () => {
  test('machines that are alike get as many layers, and compute nearly all of the time', () => {
    const two = planPipeline(request([machine('a'), machine('b')]));
    expect(Math.abs((layersOf(two)[0] ?? 0) - 16)).toBeLessThanOrEqual(1);
    expect(two.stages.map(({ layers }) => layers.first)).toEqual([0, layersOf(two)[0]]);
    for (const { idleShare } of two.stages) expect(idleShare).toBeLessThan(0.15);
    expect(two.tokensPerSecond / two.inTurnTokensPerSecond).toBeGreaterThan(1.7);
    const four = planPipeline(request(['a', 'b', 'c', 'd'].map((name) => machine(name))));
    expect(four.tokensPerSecond / two.tokensPerSecond).toBeGreaterThan(1.7);
    expect(four.tokensPerSecond / four.inTurnTokensPerSecond).toBeGreaterThan(3.2);
  });

  test('is made in slices, of a stage or a size of batches at most', () => {
    const asked = request(['a', 'b', 'c', 'd'].map((name) => machine(name)));
    const work = planPipelineInParts(asked);
    let [slices, step] = [1, work.next()];
    for (; step.done !== true; slices += 1) step = work.next();
    expect(step.value).toEqual(planPipeline(asked));
    // Sizes by numbers of batches by squares, each of which divides layers over four machines.
    expect(slices).toBeGreaterThan(100);
  });

  test('prompts come in chunks where filling the pipeline with whole ones would take long', () => {
    const machines = ['a', 'b', 'c', 'd'].map((name) => machine(name));
    const short = { promptTokens: 16, newTokens: 8, rows: 256 };
    const chunks = planPipeline(request(machines, { workload: short, allow: { batchSize: 16, batches: 4 } }));
    expect(chunks.tokensPerSquare).toBeLessThan(256);
    expect(chunks.stages.map(({ policy }) => policy.tokensPerSquare)).toEqual(
      Array.from({ length: 4 }, () => chunks.tokensPerSquare),
    );
    const whole = planPipeline(
      request(machines, { workload: short, allow: { batchSize: 16, batches: 4, tokensPerSquare: 512 } }),
    );
    expect(whole.tokensPerSquare).toBe(512);
    expect(chunks.tokensPerSecond).toBeGreaterThan(1.1 * whole.tokensPerSecond);
    // Whole ones that are short are one chunk.
    const few = { ...short, promptTokens: 4 };
    const one = planPipeline(request(machines, { workload: few, allow: { batchSize: 16, batches: 4 } }));
    expect(one.tokensPerSquare).toBeUndefined();
  });

  test('squares are smaller than the default where that has no room, whatever the batch', () => {
    const { shape } = request([]);
    const least = (
      cpuBytes: number,
      allow: PipelineRequest['allow'] = {},
      diskBytes = 0,
    ): ReturnType<typeof planPipeline> => {
      const hardware = { ...CPU_MACHINE, memory: { ...CPU_MACHINE.memory, cpuBytes, diskBytes } };
      const machines = ['a', 'b', 'c', 'd'].map((name) => machine(name, hardware));
      return planPipeline(request(machines, { workload: { promptTokens: 16, newTokens: 8, rows: 256 }, allow }));
    };
    // Eight layers, the head or embeddings, and a little.
    const room = 8 * shape.layerWeightBytes + shape.globalWeightBytes / 2 + 220 * 2 ** 20;
    expect(() => least(room, { tokensPerSquare: 512 })).toThrow(/do not hold/);
    expect(least(room).tokensPerSquare).toBeLessThan(512);
    expect(least(room, { batchSize: 1 }).tokensPerSquare).toBeLessThan(512);
    // Nor does a part of the layers stream for the default's sake.
    expect(least(room, { batchSize: 1 }, 1e12).tokensPerSquare).toBeLessThan(512);
  });

  test('no batch has more rows than a square has tokens', () => {
    const machines = [machine('a'), machine('b')];
    expect(planPipeline(request(machines, { allow: { tokensPerSquare: 16 } })).batchSize).toBeLessThanOrEqual(16);
    expect(() => planPipeline(request(machines, { allow: { tokensPerSquare: 16, batchSize: 32 } }))).toThrow(
      'allow.batchSize: found 32, expected at most `allow.tokensPerSquare`, 16: every row has a token in a square',
    );
  });

  test('a machine that is three times as fast gets three times the layers', () => {
    const [slow = 0, fast = 0] = layersOf(planPipeline(request([machine('slow'), machine('fast', faster(3))])));
    expect(slow + fast).toBe(32);
    expect(fast / slow).toBeGreaterThan(2.3);
    expect(fast / slow).toBeLessThan(3.8);
  });

  test('memory bounds what a machine gets; the other one is then what the time is spent on', () => {
    const small = { ...CPU_MACHINE, memory: { ...CPU_MACHINE.memory, cpuBytes: 2 ** 30, diskBytes: 0 } };
    const plan = planPipeline(request([machine('small', small), machine('large')]));
    expect(layersOf(plan)[0]).toBeLessThan(10);
    expect(plan.bottleneck).toBe('large');
    expect(plan.stages[0]?.memoryBytes.cpu).toBeLessThanOrEqual(2 ** 30);
    expect(() => planPipeline(request([machine('small', small), machine('small too', small)]))).toThrow(
      /machines: found 2 with .* of memory together, which do not hold llama-2-7b with 2 batches of 8 rows/,
    );
  });

  test('a link that is slow, and one that is far away', () => {
    const over = (link: PipelineMachine['link'], allow = {}): ReturnType<typeof planPipeline> =>
      planPipeline(
        request(
          [
            { ...machine('a'), link },
            { ...machine('b'), link },
          ],
          { allow: { batchSize: 8, ...allow } },
        ),
      );
    expect(over({ bytesPerSecond: 1e5, latencySeconds: 0 }).bottleneck).toBe('the link after a');
    const far = { ...LINK, latencySeconds: 5 };
    expect(over(far, { batches: 2 }).bottleneck).toBe('latency');
    // More of them in flight hide some of it.
    expect(over(far, { batches: 4 }).tokensPerSecond).toBeGreaterThan(1.8 * over(far, { batches: 2 }).tokensPerSecond);
  });

  test('hidden states in half the bytes take a link for half the time', () => {
    const link = { bytesPerSecond: 1e5, latencySeconds: 0 };
    const given = request([{ ...machine('a'), link }, machine('b')], { allow: { batchSize: 8, batches: 2 } });
    const [whole, half] = [planPipeline(given), planPipeline({ ...given, hiddenStates: 'bfloat16' })];
    expect(half.stages[0]?.linkSeconds).toBeCloseTo((whole.stages[0]?.linkSeconds ?? 0) / 2, 6);
    expect(half.tokensPerSecond).toBeGreaterThan(1.5 * whole.tokensPerSecond);
    expect(() => planPipeline({ ...given, hiddenStates: 'float16' as 'bfloat16' })).toThrow(/hiddenStates: found/);
  });

  test.each([
    [[], /machines: found .*, expected a list of at least 2/],
    [
      [machine('a'), { ...machine('b'), link: { ...LINK, bytesPerSecond: 0 } }],
      /machines.1.link.bytesPerSecond: found 0/,
    ],
    [[machine('a'), machine('two\nlines')], /machines.1.name: found "two\\nlines", expected a line of/],
  ] as const)('bad machines are refused: %#', (machines, words) => {
    expect(() => planPipeline(request(machines))).toThrow(words);
  });

  test('what shares prefixes, or is costed by a paper, is refused', () => {
    const two = [machine('a'), machine('b')];
    expect(() => planPipeline(request(two, { costModel: 'flexgen' }))).toThrow(/costModel: found flexgen/);
    expect(() => planPipeline(request(two, { allow: { schedules: ['row'] } }))).toThrow(/schedules: found row/);
    expect(() => planPipeline(request(two, { maxLatencySeconds: 5 }))).toThrow(
      'maxLatencySeconds: found 5, expected none for several machines',
    );
    expect(() => planPipeline(request(two, { allow: { compressCache: ['none', '4bit'] } }))).toThrow(
      'allow.compressCache: found none, 4bit, expected one of them for several machines',
    );
    const { batchSize, batches } = planPipeline(request(two, { allow: { mostBatchSize: 5, mostBatches: 3 } }));
    expect(batchSize).toBeLessThanOrEqual(5);
    expect(batches).toBeLessThanOrEqual(3);
    expect(planPipeline(request(two)).batchSize).toBeGreaterThan(5);
    const workload = { promptTokens: 64, newTokens: 8, sharedPrefixTokens: 32 };
    expect(() => planPipeline(request(two, { workload }))).toThrow(/sharedPrefixTokens: found 32/);
    expect(() => planPipeline(request(Array.from({ length: 33 }, (_, i) => machine(`${i}`))))).toThrow(
      /at most the 32 layers/,
    );
  });

  const streaming = request([machine('a', scarce), machine('b', scarce)]);

  test('weights that stream serve all batches at once: engines take turns where that is faster', () => {
    const workload = { promptTokens: 32, newTokens: 24, rows: 24 };
    const plan = planPipeline({ ...streaming, workload, allow: { batchSize: 2, batches: 3 } });
    expect(plan.stages.every(({ policy }) => policy.weights.disk > 0)).toBe(true);
    expect(plan.microBatches).toBe(1);
    expect(plan.tokensPerSecond).toBe(plan.inTurnTokensPerSecond);
    // Who computes for as long as one is read has something to overlap.
    const slow = { ...faster(1 / 16), memory: scarce.memory };
    const busy = planPipeline({
      ...streaming,
      machines: [machine('a', slow), machine('b', slow)],
      workload,
      allow: { batchSize: 4 },
    });
    expect(busy.stages.every(({ policy }) => policy.weights.disk > 0)).toBe(true);
    expect(busy.microBatches).toBe(busy.batches);
    expect(busy.tokensPerSecond).toBeGreaterThan(1.3 * busy.inTurnTokensPerSecond);
  });

  test('batches share the reading of weights that stream, as many micro-batches as machines', () => {
    const workload = { promptTokens: 32, newTokens: 24, rows: 32 };
    const slow = { ...faster(1 / 2), memory: scarce.memory };
    const machines = [machine('a', slow), machine('b', slow)];
    const plan = planPipeline({ ...streaming, machines, workload, allow: { batchSize: 4, batches: 4 } });
    expect(plan.stages.every(({ policy }) => policy.weights.disk > 0)).toBe(true);
    expect(plan.microBatches).toBe(2);
    // Where nothing streams, more of them in flight are no slower.
    const resident = planPipeline({ ...streaming, machines: [machine('a'), machine('b')], workload });
    expect(resident.microBatches).toBe(resident.batches);
  });
});
