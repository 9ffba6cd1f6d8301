import { beforeAll, describe, expect, test } from '@jest/globals';
import { Engine, UsageError, type EngineOptions, type Row, type RowResult, type RunOptions } from '../../src/index.js';
import { diagonalBlock, rowByRow, zigZagBlock } from '../../src/api/schedules.js';
import { readModel } from '../../src/model/readModel.js';
import { engineRing } from '../support/engineRing.js';
import { crossed, inTurn } from '../support/tries.js';
import { temporaryFolder } from '../jobs/support/files.js';
import { at, collect, model } from './support.js';

/** More rows than places, some with a beginning in common, which nobody may share. */
const rows: Row[] = Array.from({ length: 11 }, (_, i) => ({
  id: i,
  tokens: Array.from({ length: 1 + ((i * 37) % 83) }, (__, j) => ((i % 2) * i * 31 + j * 17 + 3) % 120),
  maxNewTokens: 1 + ((i * 11) % 29),
  ...(i % 3 === 1 && { temperature: 0.8, seed: i, repetitionPenalty: 1.1 }),
}));
const OPENED = { batchSize: 2, batches: 2, tokensPerSquare: 24, threads: 2, precision: 'float32' } as const;

const disk = temporaryFolder()('');

async function generate(options: EngineOptions, run: RunOptions = {}): Promise<RowResult[]> {
  await using engine = await Engine.open({ ...OPENED, disk, ...options });
  return await collect(engine.generate(rows, { logprobs: 2, ...run }));
}

const NAMES = [
  ...['qwen3-5', 'lfm2', 'qwen3-5-moe', 'lfm2-moe-Q8_0.gguf', 'granite-hybrid-mamba-moe', 'nemotron-h-moe'],
  ...['falcon-h1', 'jamba', 'lfm3', 'mamba', 'kimi-linear-published', 'bailing-hybrid', 'olmo-hybrid'],
  ...['minimax', 'minimax-published', 'recurrent-gemma', 'recurrent-gemma-window'],
];
const CHUNKED = crossed([rowByRow(), zigZagBlock(), diagonalBlock()], [3, 24, 100]);
describe.each(NAMES.map((name, nth) => [name, nth] as const))('%s, whose layers remember a state', (name, nth) => {
  let reference: RowResult[];
  beforeAll(async () => {
    reference = await generate({ model: model(name), batchSize: 1, batches: 1, tokensPerSquare: 512, threads: 1 });
    expect(reference.every(({ error }) => error === undefined)).toBe(true);
  });

  test('answers bitwise alike whatever the chunks, the company, the schedule and the threads', async () => {
    for (const [schedule, tokensPerSquare] of inTurn(CHUNKED, nth))
      expect(await generate({ model: model(name), tokensPerSquare }, { schedule })).toEqual(reference);
  });

  test('also with weights, cache and hidden states on disk', async () => {
    const onDisk = { cpu: 0, disk: 1 };
    expect(
      await generate({ model: model(name), weights: onDisk, cache: onDisk, activations: { cpu: 0.5, disk: 0.5 } }),
    ).toEqual(reference);
  });

  test('also with its layers divided over engines', async () => {
    const { decoder } = await readModel(model(name));
    await using ring = await engineRing([1, decoder.layers - 1], { ...OPENED, disk, model: model(name) });
    const [first, second] = ring.engines;
    if (!first || !second) throw new Error('a ring of fewer than two engines');
    const peers = ring.connect();
    const results = collect(first.generate(rows, { logprobs: 2, peers: at(peers, 0) }));
    await Promise.all([results, second.follow(at(peers, 1))]);
    expect(await results).toEqual(reference);
  });

  test('answers as before after runs that were broken off, and scores completions', async () => {
    await using engine = await Engine.open({ ...OPENED, disk, model: model(name) });
    for await (const { id } of engine.generate(rows)) if (id === 2) break;
    expect(await collect(engine.generate(rows, { logprobs: 2 }))).toEqual(reference);
  });

  test('answers calls of several priorities that are under way together', async () => {
    await using engine = await Engine.open({ ...OPENED, disk, model: model(name) });
    const calls = [0, 2, 0].map((priority) => collect(engine.generate(rows, { logprobs: 2, priority })));
    for (const results of await Promise.all(calls)) expect(results).toEqual(reference);
  });

  test('is refused by name where its layers would have to be shared', async () => {
    const shared = Engine.open({ ...OPENED, model: model(name), tensorParallel: { index: 0, of: 2 } });
    await expect(shared).rejects.toThrow(UsageError);
    await expect(shared).rejects.toThrow(/tensorParallel: found a model of the family \w+/);
  });
});
