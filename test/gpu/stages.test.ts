import './support/emulatedAddon.js';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Engine, type EngineOptions, type RowResult, type RunOptions } from '../../src/index.js';
import { diagonalBlock, zigZagBlock } from '../../src/api/schedules.js';
import { collect, model, unequalRows } from '../e2e/support.js';
import { engineRing } from '../support/engineRing.js';
import { agreement } from './support/agreement.js';

const OPENED = { batchSize: 2, batches: 2, tokensPerSquare: 12, threads: 2 } as const;
const GPU = { gpuMemory: '16MiB' } as const;
/** Of log-probabilities in float32, on either. */
const TOLERANCE = 1e-3;
const rows = unequalRows.slice(0, 6).map((row, i) => ({
  ...row,
  tokens: row.tokens?.map((token) => token % 120) ?? [],
  ...(i % 3 === 1 && { temperature: 0.8, seed: i, repetitionPenalty: 1.2 }),
}));
const greedy = rows.map(({ id, tokens, maxNewTokens }) => ({
  ...(id !== undefined && { id }),
  tokens,
  ...(maxNewTokens !== undefined && { maxNewTokens }),
}));

let disk: string;
beforeAll(() => {
  disk = mkdtempSync(join(tmpdir(), 'spillway-gpu-stages-'));
});
afterAll(() => {
  rmSync(disk, { recursive: true });
});

async function whole(options: EngineOptions, given = rows): Promise<RowResult[]> {
  await using engine = await Engine.open({ ...OPENED, disk, ...options });
  return await collect(engine.generate(given, { logprobs: 2 }));
}

async function inRing(
  counts: readonly number[],
  optionsOf: (index: number) => EngineOptions,
  run: RunOptions = {},
  given = rows,
): Promise<RowResult[]> {
  await using ring = await engineRing(counts, (index) => ({ ...OPENED, disk, ...optionsOf(index) }));
  const peers = ring.connect();
  const [first, ...later] = ring.engines.map((engine, index) => ({ engine, peers: peers[index] }));
  if (!first?.peers) throw new RangeError('a ring of no engines');
  const following = later.map(({ engine, peers: own }) =>
    own ? engine.follow(own) : Promise.reject(new RangeError('no peers')),
  );
  const results = collect(first.engine.generate(given, { logprobs: 2, ...run, peers: first.peers }));
  await Promise.all([results, ...following]);
  return await results;
}

describe('layers divided over engines on a GPU', () => {
  const three = {
    weights: { gpu: 0.3, cpu: 0.3, disk: 0.4 },
    cache: { gpu: 0.5, cpu: 0.5, disk: 0 },
    activations: { gpu: 0, cpu: 0.5, disk: 0.5 },
  };

  test.each([
    ['llama-Q4_1.gguf', [1, 1], [zigZagBlock(), diagonalBlock()]],
    ['gemma3', [2, 1, 1], [diagonalBlock()]],
  ] as const)('%s, %j: bitwise as on one', async (name, counts, schedules) => {
    const options = { model: model(name), ...GPU };
    const expected = await whole(options);
    expect(expected.every(({ error }) => error === undefined)).toBe(true);
    for (const schedule of schedules)
      await expect(inRing(counts, () => options, { schedule })).resolves.toEqual(expected);
  });

  test('with weights, cache and hidden states on three tiers, too', async () => {
    const options = { model: model('llama-Q4_1.gguf'), ...GPU, ...three };
    await expect(inRing([1, 1], () => options)).resolves.toEqual(await whole(options));
  });

  test.each([0, 1])(
    'one of two engines on it, the other (%i) on the processor: answers are those of the processor',
    async (onCpu) => {
      const name = { model: model('llama-Q4_1.gguf'), precision: 'float32' } as const;
      const expected = await whole(name, greedy);
      const cache = { gpu: 0, cpu: 1, disk: 0 };
      const found = await inRing([1, 1], (index) => (index === onCpu ? name : { ...name, ...GPU, cache }), {}, greedy);
      const { compared, all } = agreement(expected, found, TOLERANCE);
      expect(compared).toBeGreaterThan(0.8 * all);
    },
  );

  test.each([zigZagBlock(), diagonalBlock()])(
    'with pages that come to it, $name: bitwise as on one',
    async (schedule) => {
      const options = {
        model: model('llama-Q4_1.gguf'),
        ...GPU,
        cpuAttention: false,
        cache: { gpu: 0, cpu: 0.5, disk: 0.5 },
      };
      await expect(inRing([1, 1], () => options, { schedule })).resolves.toEqual(await whole(options));
    },
  );

  test('a row with more pages than come to the GPU of a later engine ends by itself, not the run', async () => {
    const long = join(disk, 'long');
    cpSync(model('llama'), long, { recursive: true });
    const config = join(long, 'config.json');
    writeFileSync(
      config,
      JSON.stringify({ ...JSON.parse(readFileSync(config, 'utf8')), max_position_embeddings: 8192 }),
    );
    const options = { model: long, batchSize: 1, precision: 'float32', cache: { gpu: 0, cpu: 1, disk: 0 } } as const;
    const given = [{ id: 'long', tokens: Array.from({ length: 4200 }, (_, i) => i % 120), maxNewTokens: 1 }, ...greedy];
    const found = await inRing(
      [1, 1],
      (index) =>
        index === 0 ? { ...options, cache: { cpu: 1, disk: 0 } } : { ...options, ...GPU, cpuAttention: false },
      {},
      given,
    );
    expect(found.filter(({ error }) => error).map(({ id, error }) => [id, error?.code])).toEqual([['long', 'memory']]);
    expect(found).toHaveLength(given.length);
  });

  test('engines that put other shares of the cache on it are refused, with what to do', async () => {
    const options = { model: model('llama-Q4_1.gguf') };
    const running = inRing([1, 1], (index) => (index === 0 ? options : { ...options, ...GPU }));
    await expect(running).rejects.toThrow(
      'cache share on the GPU (the option cache says it): found 0, expected 1 as in the engine of layers 1 to 1',
    );
  });
});
