import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, describe, expect, test } from '@jest/globals';
import { loadAddon } from '../../src/bindings/loadAddon.js';
import { Engine } from '../../src/Engine.js';
import type { HardwareProfile } from '../../src/plan/HardwareProfile.js';
import { parsePolicy } from '../../src/plan/Policy.js';
import { HEAP_MARGIN_BYTES } from '../../src/plan/reserves.js';
import { rowByRow } from '../../src/engine/schedules/blockSchedules.js';
import { serialPipeline } from '../../src/operators/serialPipeline.js';
import type { RowResult } from '../../src/Row.js';
import type { EngineOptions } from '../../src/EngineOptions.js';
import type { RunOptions } from '../../src/engine/rows/Generation.js';
import type { RunStats } from '../../src/RunStats.js';
import { CPU_MACHINE } from '../plan/support/hardware.js';

const MODEL = fileURLToPath(new URL('../fixtures/models/llama-Q8_0.gguf', import.meta.url));
const disk = mkdtempSync(join(tmpdir(), 'spillway-auto-'));
afterAll(() => {
  rmSync(disk, { recursive: true, force: true });
});

const { processorName, processors, memoryBytes } = loadAddon().machine();
const hardware: HardwareProfile = { ...CPU_MACHINE, machine: { processorName, processors, memoryBytes } };

function rows(count: number, promptTokens: number): { readonly id: number; readonly tokens: number[] }[] {
  return Array.from({ length: count }, (_, id) => ({
    id,
    tokens: Array.from({ length: promptTokens }, (_, at) => 3 + ((id * 37 + at * 11) % 250)),
  }));
}

/** Results and statistics of one run. */
async function run(
  engine: Engine,
  input: Iterable<{ readonly id: number; readonly tokens: number[] }>,
  options: RunOptions,
): Promise<{ readonly results: RowResult[]; readonly stats: RunStats }> {
  let stats: RunStats | undefined;
  const results: RowResult[] = [];
  for await (const result of engine.generate(input, {
    ignoreEos: true,
    ...options,
    onStats: (final) => (stats = final),
  }))
    results.push(result);
  if (stats === undefined) throw new Error('a run without statistics');
  return { results, stats };
}

describe('an engine that is opened by a plan', () => {
  test('gives the same results as one without, and says what was predicted', async () => {
    const input = rows(40, 9);
    const expected = { promptTokens: 9, newTokens: 6, rows: 40 };
    const plans: string[] = [];
    await using auto = await Engine.open({
      model: MODEL,
      hardware,
      expectedRows: expected,
      disk,
      onPlan: ({ origin }) => plans.push(origin),
    });
    await using plain = await Engine.open({ model: MODEL, policy: 'default' });
    const planned = await run(auto, input, { maxNewTokens: 6 });
    const usual = await run(plain, input, { maxNewTokens: 6 });
    expect(planned.results).toEqual(usual.results);
    expect(plans).toEqual(['auto']);
    expect(auto.plan.policy).toMatchObject({ compressWeights: 'none', compressCache: 'none' });
    const { predicted, plan } = planned.stats;
    expect(predicted).toMatchObject({
      rows: 40,
      workload: expected,
      fits: true,
      planned: { workload: expected, tokensPerSecond: auto.plan.predicted?.tokensPerSecond },
    });
    expect(predicted?.tokensPerSecond).toBeCloseTo((40 * 6) / (predicted?.wallSeconds ?? 0), 3);
    expect(predicted?.queueSeconds['cpu-compute']).toBeGreaterThan(0);
    expect(plan).toEqual({ origin: 'auto', replans: [] });
    expect(usual.stats).toMatchObject({ plan: { origin: 'default', replans: [] } });
    expect(usual.stats.predicted).toBeUndefined();
  });

  test("nothing is predicted for stages of one's own; other schedules are", async () => {
    await using engine = await Engine.open({ model: MODEL, hardware, expectedRows: { promptTokens: 5, newTokens: 3 } });
    expect(
      (await run(engine, rows(4, 5), { maxNewTokens: 3, pipeline: serialPipeline })).stats.predicted,
    ).toBeUndefined();
    const { stats } = await run(engine, rows(4, 5), { maxNewTokens: 3, schedule: rowByRow() });
    expect(stats.policy).toMatchObject({ schedule: 'row' });
    expect(stats.predicted?.tokensPerSecond).toBeGreaterThan(0);
  });

  test('nothing is predicted for calls that are under way beside each other', async () => {
    await using engine = await Engine.open({ model: MODEL, hardware, expectedRows: { promptTokens: 5, newTokens: 3 } });
    const beside = await Promise.all([4, 4].map((count) => run(engine, rows(count, 5), { maxNewTokens: 3 })));
    const alone = await run(engine, rows(4, 5), { maxNewTokens: 3 });
    expect(beside.flatMap(({ stats }) => [stats.predicted, stats.corrections])).toEqual(Array(4).fill(undefined));
    expect(alone.stats.predicted?.tokensPerSecond).toBeGreaterThan(0);
  });

  const half = { cpu: 0.5, disk: 0.5 };
  test.each<[string, object, number, number, number]>([
    ['everything in memory', { batchSize: 8, batches: 2 }, 40, 20, 16],
    ['zigzag, fewer rows than places', { batchSize: 8, schedule: 'zigzag' }, 70, 4, 5],
    ['weights from disk', { batchSize: 8, weights: half }, 40, 20, 12],
    ['cache on disk', { batchSize: 8, batches: 2, cache: { disk: 1 } }, 90, 20, 20],
    ['cache half on disk', { batchSize: 8, cache: half }, 90, 20, 9],
    ['hidden states on disk', { batchSize: 8, batches: 3, activations: half }, 40, 10, 24],
    ['a cache of 4 bits', { batchSize: 8, compressCache: '4bit' }, 40, 20, 8],
  ])('memory that is planned is what a run takes, within 3%: %s', async (_, policy, promptTokens, newTokens, count) => {
    await using engine = await Engine.open({
      model: MODEL,
      hardware,
      disk,
      expectedRows: { promptTokens, newTokens, rows: count },
      policy: parsePolicy({ schedule: 'diagonal', ...policy }, 'test'),
    });
    const { stats } = await run(engine, rows(count, promptTokens), { maxNewTokens: newTokens });
    for (const [tier, { peakBytes }] of Object.entries(stats.memory)) {
      // Of so small a model the repacked file is headers and padding.
      if (tier === 'disk' && 'weights' in policy) continue;
      const left = tier === 'cpu' ? HEAP_MARGIN_BYTES : 0;
      const planned = stats.predicted?.memoryBytes[tier as 'cpu' | 'disk'] ?? 0;
      // The margin is the same constant on both sides and would hide the rest.
      const off = Math.abs((planned - left) / (peakBytes - left) - 1);
      expect({ tier, planned, peakBytes, near: off < 0.03 }).toMatchObject({ near: true });
    }
  });
});

describe('rows that turn out otherwise than planned', () => {
  const open = (more: Partial<EngineOptions> = {}): Promise<Engine> =>
    Engine.open({
      model: MODEL,
      hardware,
      disk,
      expectedRows: { promptTokens: 4, newTokens: 3, rows: 1000 },
      ...more,
    });

  test('change how many run together where a block may take only so long, and change no result', async () => {
    const input = rows(400, 60);
    // All of them, also those that are equal.
    const options = { maxNewTokens: 3, sharePrefixes: false };
    await using engine = await open({ maxLatency: 0.02 });
    const places = (engine.plan.policy?.batchSize ?? 0) * (engine.plan.policy?.batches ?? 0);
    const first = await run(engine, input, options);
    const [change] = first.stats.plan?.replans ?? [];
    expect(change?.workload).toEqual({ promptTokens: 60, newTokens: 3 });
    expect(change?.rows).toBeGreaterThan(0);
    expect(change?.rows).toBeLessThan(places);
    expect((await run(engine, input, options)).stats.plan?.replans).toEqual([change]);
    await using plain = await Engine.open({ model: MODEL, policy: 'default' });
    expect(first.results).toEqual((await run(plain, input, { maxNewTokens: 3 })).results);
  });

  test.each([
    ['there is no bound', {}],
    ['the caller has said how many rows a batch has', { batchSize: 4, maxLatency: 1 }],
  ])('change nothing where %s', async (_, options) => {
    await using engine = await open(options);
    expect((await run(engine, rows(200, 60), { maxNewTokens: 3 })).stats.plan).toEqual({ origin: 'auto', replans: [] });
  });
});
