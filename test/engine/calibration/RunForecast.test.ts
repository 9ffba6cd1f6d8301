import { existsSync, readFileSync } from 'node:fs';
import { oneGroup } from '../../../src/engine/memory/cacheGroups.js';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { loadAddon } from '../../../src/bindings/loadAddon.js';
import { Engine } from '../../../src/Engine.js';
import type { TaskEvent } from '../../../src/engine/grid/Task.js';
import { RunForecast, type ForecastFacts } from '../../../src/engine/calibration/RunForecast.js';
import type { HardwareProfile } from '../../../src/plan/HardwareProfile.js';
import { parsePolicy } from '../../../src/plan/Policy.js';
import { blockSecondsOf } from '../../../src/plan/predict.js';
import { requireKnownShape } from '../../../src/plan/knownShapes.js';
import type { PlanRequest } from '../../../src/plan/PlanRequest.js';
import { profilePath } from '../../../src/profile/cachedProfile.js';
import { correctionsPath } from '../../../src/engine/calibration/correctionsFile.js';
import { settle } from '../../../src/engine/open/settings.js';
import type { RunStats } from '../../../src/RunStats.js';
import { temporaryFolder } from '../../jobs/support/files.js';
import { CPU_MACHINE } from '../../plan/support/hardware.js';

const path = temporaryFolder();
const machine = loadAddon().machine();
const HERE: HardwareProfile = {
  ...CPU_MACHINE,
  machine: { processorName: machine.processorName, processors: machine.processors, memoryBytes: machine.memoryBytes },
};
const TINY = fileURLToPath(new URL('../../fixtures/models/llama-Q8_0.gguf', import.meta.url));

const before = process.env['XDG_CACHE_HOME'];
beforeAll(() => {
  process.env['XDG_CACHE_HOME'] = path('cache');
});
afterAll(() => {
  if (before === undefined) delete process.env['XDG_CACHE_HOME'];
  else process.env['XDG_CACHE_HOME'] = before;
});

async function statsOf(options: Partial<Parameters<typeof Engine.open>[0]>): Promise<RunStats | undefined> {
  let stats: RunStats | undefined;
  // More than jest's own process may hold by then.
  await using engine = await Engine.open({ model: TINY, cpuMemory: '8GiB', hardware: HERE, ...options });
  for await (const row of engine.generate([{ tokens: [1, 2, 3] }, { tokens: [4, 5] }], {
    maxNewTokens: 6,
    ignoreEos: true,
    onStats: (each) => {
      stats = each;
    },
  }))
    expect(row.error).toBeUndefined();
  return stats;
}

test('the statistics of a run say by what it was predicted, and set its work beside the profile alone', async () => {
  const corrections = { 'compute.decode.q8.1': 3, 'compute.prefill.q8.4': 3 };
  const stats = await statsOf({ hardware: { ...HERE, corrections } });
  expect(stats?.corrections).toMatchObject({ applied: corrections, learned: false });
  expect(stats?.corrections?.uncorrectedTokensPerSecond).toBeGreaterThan(
    (stats?.predicted?.tokensPerSecond ?? Infinity) * 1.2,
  );
  const work = Object.entries(stats?.corrections?.work ?? {});
  // Two rows at most share a square: of one to five tokens.
  expect(
    work
      .map(([kind]) => kind)
      .filter((kind) => kind !== 'between')
      .every((kind) => /^compute\.(prefill|decode)\.q8\.(1|4)$/.test(kind)),
  ).toBe(true);
  const computed = work
    .filter(([kind]) => kind.startsWith('compute'))
    .reduce((sum, [, { seconds }]) => sum + seconds, 0);
  expect(computed).toBeCloseTo(stats?.queues['cpu-compute']?.busySeconds ?? NaN, 6);
  // A machine that is given is nobody's to correct.
  expect(existsSync(path('cache/spillway/profiles'))).toBe(false);
});

test('nothing is set beside the profile where work is done otherwise than it was measured', async () => {
  expect((await statsOf({ sparseAttention: 0.5 }))?.corrections).toBeUndefined();
  expect(
    (await statsOf({ hardware: { ...HERE, machine: { ...HERE.machine, instructionSet: 'another' } } }))?.corrections,
  ).toBeUndefined();
  expect((await statsOf({ policy: 'default' }))?.corrections).toBeUndefined();
});

const REQUEST = {
  hardware: HERE,
  shape: { ...requireKnownShape('opt-6.7b'), layers: 4 },
  workload: { promptTokens: 32, newTokens: 16 },
};

/** An engine of a large model that nobody opens; its runs are told task by task. */
function forecastOf(learns: boolean, planned?: Pick<PlanRequest, 'maxLatencySeconds'>): RunForecast {
  const request = { ...REQUEST, ...planned };
  const settings = settle({ model: 'none', batchSize: 16, disk: path('disk') }, machine);
  const plan = {
    report: { origin: planned ? ('auto' as const) : ('policy' as const) },
    options: { model: 'none' },
    streams: false,
    request,
    ...(learns && {
      learning: { profile: HERE, options: { disk: settings.memory.disk, threads: settings.block.threads } },
    }),
  };
  const facts: ForecastFacts = {
    plan,
    settings,
    grid: { layers: 4, slots: 1, rowsPerSlot: 16, tokensPerSquare: 512 },
    gpu: undefined,
    cache: {
      pages: 1000,
      pageTokens: 32,
      disk: { pages: 0, share: 0, mostPerRow: 0 },
      buffers: 0,
      pageBytes: 0,
      diskPageBytes: 0,
      groups: oneGroup(4),
    },
    reserved: { hostBytes: planned ? 8 * 2 ** 30 : 0 },
  };
  const inMemory = { gpu: 0, cpu: 1, disk: 0 };
  return new RunForecast(facts, { weights: inMemory, cache: inMemory, activations: inMemory });
}

/** A run of which every task of 16 decoding rows took the same. */
function runOf(
  forecast: RunForecast,
  slowness: number,
  together?: () => void,
): Pick<RunStats, 'predicted' | 'corrections'> {
  // Whatever else this machine does meanwhile.
  const timings = forecast.timings('diagonal', false, { undisturbed: () => 1 });
  if (!timings) throw new Error('no timings');
  forecast.began(timings);
  together?.();
  const rows = Array.from({ length: 16 }, (_, row) => ({ row, firstPosition: 40, tokens: 1, head: 'sample' as const }));
  for (let id = 0; id < 100; id++) {
    const task = {
      run: 1,
      name: 'compute' as const,
      part: 'finish' as const,
      queue: 'cpu-compute' as const,
      batch: { pass: id, slot: 0, rows },
      layer: 0,
      bytes: 0,
    };
    const event: TaskEvent = { id, task, timing: { start: id, end: id + slowness * 0.05 }, error: undefined };
    timings.completed(event);
  }
  const { predicted, corrections } = forecast.of({
    schedule: 'diagonal',
    totals: { rows: 16, promptTokens: 512, newTokens: 256 },
    ownStages: false,
    shared: false,
    timings,
  });
  forecast.ended(timings);
  return { ...(predicted && { predicted }), ...(corrections && { corrections }) };
}

test('a run is predicted by those before it, never by itself, and what it teaches is kept', async () => {
  const forecast = forecastOf(true);
  const first = runOf(forecast, 1);
  expect(first.corrections).toMatchObject({
    applied: {},
    learned: true,
    uncorrectedTokensPerSecond: first.predicted?.tokensPerSecond,
  });
  await forecast.learned();
  const second = runOf(forecast, 1);
  await forecast.learned();
  const [kind, factor] = Object.entries(second.corrections?.applied ?? {}).find(([each]) =>
    each.startsWith('compute'),
  ) ?? ['', 1];
  expect(kind).toBe('compute.decode.f16.16');
  expect(factor).not.toBe(1);
  expect(second.corrections?.uncorrectedTokensPerSecond).toBe(first.predicted?.tokensPerSecond);
  expect(second.corrections?.work[kind]).toEqual(first.corrections?.work[kind]);
  const file = correctionsPath(await profilePath({ disk: path('disk'), threads: machine.processors }, machine));
  expect(JSON.parse(readFileSync(file, 'utf8'))).toMatchObject({ learned: { [kind]: { runs: 2 } } });
});

test('runs at the same time say nothing of what lies between their tasks, and their machine is not learned without a place for it', () => {
  const forecast = forecastOf(false);
  expect(runOf(forecast, 1).corrections?.work['between']).toBeDefined();
  let inner: ReturnType<typeof runOf> | undefined;
  const outer = runOf(forecast, 1, () => {
    inner = runOf(forecast, 1);
  });
  expect([outer, inner].map((each) => each?.corrections?.work['between'])).toEqual([undefined, undefined]);
  expect(outer.corrections?.learned).toBe(false);
  expect(runOf(forecast, 1).corrections?.applied).toEqual({});
});

test('rows that turn out longer than planned run fewer at a time where a block may take only so long, and at least one', () => {
  const rowsAfter = (maxLatencySeconds: number): number | undefined => {
    const { drift } = forecastOf(false, { maxLatencySeconds });
    expect(drift?.rows).toBe(16);
    for (let row = 0; row < 100; row++) drift?.prompt(32);
    for (let row = 0; row < 100; row++) drift?.ended(64);
    return drift?.rows;
  };
  const longer = { ...REQUEST, workload: { promptTokens: 32, newTokens: 64 } };
  const latency = (batchSize: number): number =>
    blockSecondsOf(longer, parsePolicy({ schedule: 'diagonal', batchSize, tokensPerSquare: 512 }, 'test'));
  expect(forecastOf(false, {}).drift).toBeUndefined();
  const bound = rowsAfter((latency(1) + latency(16)) / 2);
  expect(bound).toBeLessThan(16);
  expect(bound).toBeGreaterThan(1);
  expect(rowsAfter(1e-3)).toBe(1);
});
