import { beforeAll, describe, expect, jest, test } from '@jest/globals';
import {
  Engine,
  UsageError,
  type EngineOptions,
  type Row,
  type RowResult,
  type RunOptions,
  type RunStats,
} from '../../src/index.js';
import { diagonalBlock, rowByRow, zigZagBlock } from '../../src/api/schedules.js';
import type { NativeRuntime } from '../../src/bindings/Addon.js';
import { loadAddon } from '../../src/bindings/loadAddon.js';
import { readModel } from '../../src/model/readModel.js';
import { engineRing } from '../support/engineRing.js';
import { temporaryFolder } from '../jobs/support/files.js';
import { inTurn, tries } from '../support/tries.js';
import { at, collect, model } from './support.js';

/** Rows over many windows and chunks, of which every second one begins like the others. */
const rows: Row[] = Array.from({ length: 9 }, (_, i) => ({
  id: i,
  tokens: Array.from({ length: 1 + ((i * 41) % 90) }, (__, j) => ((i % 2) * i * 31 + j * 17 + 3) % 120),
  maxNewTokens: 1 + ((i * 11) % 29),
  ...(i % 3 === 1 && { temperature: 0.8, seed: i, repetitionPenalty: 1.1 }),
}));
const OPENED = { batchSize: 2, batches: 2, tokensPerSquare: 24, threads: 2, precision: 'float32' } as const;
const SHARES_KEYS = ['gemma4', 'gemma3n'];
const LATENT = ['deepseek-v2', 'deepseek-v3', 'longcat-flash'];
const RECENT = ['mimo-v2', 'laguna', 'longcat-flash'];

const disk = temporaryFolder()('');

async function generate(options: EngineOptions, run: RunOptions = {}): Promise<RowResult[]> {
  await using engine = await Engine.open({ ...OPENED, disk, ...options });
  return await collect(engine.generate(rows, { logprobs: 2, ...run }));
}

const MODELS = [
  'gemma3n',
  'gemma4',
  'gemma4-equal',
  'gemma4-moe',
  'llama4',
  'ministral3',
  'mimo-v2',
  'laguna',
  ...LATENT,
];
describe.each(MODELS.map((name, nth) => [name, nth] as const))('%s', (name, nth) => {
  let reference: RowResult[];
  beforeAll(async () => {
    reference = await generate({ model: model(name), batchSize: 1, batches: 1, tokensPerSquare: 512, threads: 1 });
    expect(reference.every(({ error }) => error === undefined)).toBe(true);
  });

  test('answers bitwise alike whatever the chunks, the company, the schedule, what is shared and the threads', async () => {
    const chunked = [
      [rowByRow(), 3],
      [zigZagBlock(), 24],
      [diagonalBlock(), 100],
    ] as const;
    for (const [schedule, tokensPerSquare] of inTurn(chunked, nth))
      expect(await generate({ model: model(name), tokensPerSquare }, { schedule })).toEqual(reference);
    expect(await generate({ model: model(name) }, { sharePrefixes: false })).toEqual(reference);
  });

  test('also with weights and hidden states on disk, and with the cache there where that can be', async () => {
    const onDisk = { cpu: 0, disk: 1 };
    const places = { weights: onDisk, activations: { cpu: 0.5, disk: 0.5 } };
    expect(await generate({ model: model(name), ...places })).toEqual(reference);
    // Runs of two schedules, each with a store of its own for each batch.
    await using engine = await Engine.open({ ...OPENED, disk, model: model(name), activations: onDisk });
    const runs = [rowByRow(), zigZagBlock()].map((schedule) =>
      collect(engine.generate(rows, { logprobs: 2, schedule })),
    );
    for (const results of await Promise.all(runs)) expect(results).toEqual(reference);
    const cached = generate({ model: model(name), ...places, cache: onDisk });
    if (SHARES_KEYS.includes(name)) {
      await expect(cached).rejects.toThrow(/cache: found a share on disk/);
      return;
    }
    expect(await cached).toEqual(reference);
    // Keys, and the blocks of chosen values, are where each layer's heads have them.
    const sparse = { model: model(name), sparseAttention: 0.2 };
    expect(await generate({ ...sparse, cache: onDisk })).toEqual(await generate(sparse));
  });

  test('hidden states that go to disk are counted as they are moved, in however many streams', async () => {
    const opened = jest.spyOn(loadAddon(), 'openRuntime');
    await using engine = await Engine.open({ ...OPENED, disk, model: model(name), activations: { cpu: 0, disk: 1 } });
    const runtime = opened.mock.results[0]?.value as NativeRuntime;
    opened.mockRestore();
    let stats: RunStats | undefined;
    await collect(engine.generate(rows, { onStats: (each) => (stats = each) }));
    expect(stats?.bytes.activations['disk→cpu']).toBeGreaterThan(0);
    expect(stats?.bytes.activations).toMatchObject({
      'disk→cpu': runtime.moved.read,
      'cpu→disk': runtime.moved.written,
    });
    // There is room for four runs at once.
    const runs = await Promise.all(
      Array.from({ length: tries(2, 4) }, () => collect(engine.generate(rows, { logprobs: 2 }))),
    );
    for (const results of runs) expect(results).toEqual(reference);
  });

  test('also with its layers divided over engines, where none reads what another has', async () => {
    const opened = { ...OPENED, disk, model: model(name) };
    if (name.startsWith('gemma') || RECENT.includes(name))
      return expect(Engine.open({ ...opened, layers: { first: 0, count: 1 } })).rejects.toThrow(
        /layers: found some of those of a model of the family \w+, expected all/,
      );
    const counts = name === 'ministral3' ? [1, 1] : name === 'llama4' ? [1, 3] : [1, 2];
    await using ring = await engineRing(counts, opened);
    const [first, second] = ring.engines;
    if (!first || !second) throw new Error('a ring of fewer than two engines');
    const peers = ring.connect();
    const results = collect(first.generate(rows, { logprobs: 2, peers: at(peers, 0) }));
    await Promise.all([results, second.follow(at(peers, 1))]);
    expect(await results).toEqual(reference);
  });

  test('is refused by name where its layers would have to be shared, and its latent rows to be integers', async () => {
    const shared = Engine.open({ ...OPENED, model: model(name), tensorParallel: { index: 0, of: 2 } });
    await expect(shared).rejects.toThrow(UsageError);
    const compressed = Engine.open({ ...OPENED, model: model(name), compressCache: '8bit' });
    if (LATENT.includes(name)) await expect(compressed).rejects.toThrow(/compressCache: found 8bit/);
    else await (await compressed).close();
  });
});

test('layers of latent rows have no number of heads of their own', async () => {
  const { decoder, bindings, files } = await readModel(model('deepseek-v2'));
  const open = (layerSpecs: typeof decoder.layerSpecs) => () =>
    loadAddon().openRuntime({
      decoder: { ...decoder, layerSpecs },
      bindings,
      files,
      precision: 'float32',
      threads: 1,
      cache: { type: 'f32', pageTokens: 16, pages: 1 },
      limits: { tokensPerSquare: 1, rowsPerSquare: 1 },
    });
  const fewer = decoder.layerSpecs.map((layer, index) =>
    index === 1 ? { ...layer, heads: decoder.heads / 2 } : layer,
  );
  expect(open(fewer)).toThrow(/attention\.latent: found layers of other attention/);
  await open(decoder.layerSpecs)().close();
});
