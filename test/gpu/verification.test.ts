// What scripts/verify-gpu.sh runs on a GPU, run here as small as can be.
import './support/emulatedAddon.js';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import * as main from '../../src/index.js';
import * as models from '../../src/api/models.js';
import * as operators from '../../src/api/operators.js';
import * as plan from '../../src/api/plan.js';
import { loadAddon } from '../../src/bindings/loadAddon.js';
import { builtIn } from '../plan/support/hardware.js';

const library = { ...main, ...models, ...operators, ...plan };

/** The scripts have no types; what is used of them is declared here. */
const load = async <T>(path: string): Promise<T> => (await import(`../../scripts/gpu/${path}`)) as T;

interface Shape {
  readonly layers: number;
  readonly heads: number;
  readonly hiddenSize: number;
  readonly vocabularySize: number;
  readonly contextTokens: number;
}
interface Answers {
  readonly placement: string;
  readonly ok: boolean;
  readonly equal: number;
  readonly compared: number;
}
interface Streamed {
  readonly placement: string;
  readonly error?: string;
  readonly ok: boolean;
  readonly enginePeakBytes: number;
  readonly overlapping: { readonly shareOfLink: number; readonly linkSeconds: number; readonly wallSeconds: number };
  readonly serial: { readonly shareOfLink: number };
  readonly memory?: { readonly usedBytes: number; readonly samples: number; readonly within: boolean };
}
type ReadDriver = () => Promise<{ readonly deviceBytes: number }>;
const { makeOptModel } = await load<{ makeOptModel(folder: string, shape: Shape): Promise<number> }>(
  'makeOptModel.mjs',
);
const { endToEnd, PLACEMENTS } = await load<{ endToEnd(options: object): Promise<Answers[]>; PLACEMENTS: object }>(
  'endToEnd.mjs',
);
const { streaming } = await load<{ streaming(options: object): Promise<Streamed[]> }>('streaming.mjs');
const { measureSpeed } = await load<{ measureSpeed(options: object): Promise<Readonly<Record<string, unknown>>> }>(
  'speed.mjs',
);
const { optBytes } = await load<{ optBytes(shape: Shape): { readonly total: number } }>('optShapes.mjs');

const SHAPE: Shape = { layers: 2, heads: 2, hiddenSize: 32, vocabularySize: 128, contextTokens: 128 };
let folder: string;
let path: string;
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'spillway-gpu-verification-'));
  path = join(folder, 'model');
  expect(await makeOptModel(path, SHAPE)).toBe(optBytes(SHAPE).total);
});
afterAll(() => {
  rmSync(folder, { recursive: true });
});

test('a model of random weights is one that can be read, and its weights are as they should be', async () => {
  const { decoder } = await library.readModel(path);
  expect(decoder).toMatchObject({
    family: 'opt',
    layers: 2,
    hiddenSize: 32,
    heads: 2,
    vocabularySize: 128,
    contextTokens: 128,
  });
  await using engine = await library.Engine.open({ model: path });
  const { perplexity } = await engine.perplexity(
    Array.from({ length: 60 }, (_, i) => (i * 37 + 11) % 128),
    { window: 60 },
  );
  expect(perplexity).toBeGreaterThan(20);
  expect(perplexity).toBeLessThan(3000);
});

describe('the steps of the verification', () => {
  test('answers in every placement are those of the processor', async () => {
    const model = {
      name: 'tiny',
      path,
      vocabularySize: 128,
      rows: 4,
      promptTokens: 70,
      newTokens: 4,
      gpuMemory: '16MiB',
      engine: { batchSize: 2, batches: 2 },
      variants: ['float32'],
    };
    const cases = await endToEnd({ library, models: [model], disk: folder });
    expect(cases.map(({ placement }) => placement)).toEqual(Object.keys(PLACEMENTS));
    for (const each of cases) expect(each).toMatchObject({ ok: true, equal: 4, wrong: [] });
    expect(Math.min(...cases.map(({ compared }) => compared))).toBeGreaterThan(4);
  });

  test('a GPU that cannot do it is a case that does not agree, and the others go on', async () => {
    const model = {
      name: 'tiny',
      path,
      vocabularySize: 128,
      rows: 1,
      promptTokens: 4,
      newTokens: 2,
      gpuMemory: '1KiB',
      variants: ['float32'],
    };
    const [found] = await endToEnd({
      library,
      models: [model],
      disk: folder,
      placements: { there: { weights: { gpu: 1, cpu: 0, disk: 0 } } },
    });
    expect(found).toMatchObject({ ok: false, error: expect.stringContaining('gpuMemory') as unknown });
  });

  test.each([
    [24, true],
    [40, false],
  ])('copies beside computing, and a driver that counts %i MiB more', async (mebibytes, within) => {
    // The driver of this test: a context's own 100 MiB when it is asked first.
    let asked = 0;
    const readDriver: ReadDriver = async () => ({ deviceBytes: (asked++ === 0 ? 100 : 100 + mebibytes) * 2 ** 20 });
    const [found] = await streaming({
      library,
      disk: folder,
      readDriver,
      placements: { streamed: { weights: { gpu: 0, cpu: 0.5, disk: 0.5 }, cache: { gpu: 1, cpu: 0, disk: 0 } } },
      model: { path, vocabularySize: 128, rows: 2, batches: 2, promptTokens: 6, newTokens: 2, gpuMemory: '24MiB' },
    });
    expect(found).toMatchObject({ ok: within, memory: { usedBytes: mebibytes * 2 ** 20, within, counted: 'device' } });
    expect(found?.memory?.samples).toBeGreaterThan(0);
    expect(found?.overlapping.linkSeconds).toBeGreaterThan(0);
    expect(found?.overlapping.linkSeconds).toBeLessThan(found?.overlapping.wallSeconds ?? 0);
    expect(found?.serial.shareOfLink).toBe(0);
    expect(found?.enginePeakBytes).toBeLessThanOrEqual(24 * 2 ** 20);
  });

  test('speed is that of the chosen plan, beside what it promised; nothing is left on the disk', async () => {
    const { processorName, processors, memoryBytes } = loadAddon().machine();
    const hardware = { ...builtIn('flexgen-t4'), machine: { processorName, processors, memoryBytes } };
    const scratch = mkdtempSync(join(folder, 'speed-'));
    const work = {
      library,
      name: 'opt-6.7b',
      shape: SHAPE,
      folder: scratch,
      hardware,
      promptTokens: 4,
      newTokens: 2,
      caps: { gpuBytes: 2 ** 26, cpuBytes: 2 ** 32 },
    };
    const found = await measureSpeed({ ...work, wantedSeconds: 1e-6, mostSeconds: 1e-6 });
    expect(found).toMatchObject({
      rows: expect.any(Number),
      layers: 2,
      layersOfModel: 2,
      origin: 'auto',
      policy: { cpuAttention: true },
      modelBytes: optBytes(SHAPE).total,
    });
    for (const name of ['tokensPerSecond', 'predictedTokensPerSecond', 'shareOfPredicted'])
      expect(found[name]).toBeGreaterThan(0);
    expect(readdirSync(scratch)).toEqual([]);
    const signal = AbortSignal.abort();
    await expect(measureSpeed({ ...work, wantedSeconds: 1e-6, mostSeconds: 1e-6, signal })).rejects.toThrow();
    expect(readdirSync(scratch)).toEqual([]);
  });
});
