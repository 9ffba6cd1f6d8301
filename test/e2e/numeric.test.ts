import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, test } from '@jest/globals';
import {
  Engine,
  RowError,
  type EngineOptions,
  type Row,
  type RowResult,
  type RunOptions,
  type RunStats,
} from '../../src/index.js';
import { serialPipeline } from '../../src/api/operators.js';
import { rowByRow, zigZagBlock } from '../../src/api/schedules.js';
import { engineRing } from '../support/engineRing.js';
import { overwrittenModel, type Overwrite } from '../support/model/overwrittenModel.js';
import { collect, model } from './support.js';

const folder = mkdtempSync(join(tmpdir(), 'spillway-numeric-'));
afterAll(() => {
  rmSync(folder, { recursive: true });
});
const SOUND = model('llama-F32.gguf');
const overwritten = (...overwrites: readonly Overwrite[]): Promise<string> =>
  overwrittenModel(SOUND, mkdtempSync(join(folder, 'model-')), overwrites);

/** A token whose embedding is not finite: rows that hold it are, nobody else is. No row of these tests samples it. */
const ODD = 200;
const oddEmbedding = (value: number): Promise<string> =>
  overwritten({ role: 'token_embedding', row: ODD, column: 5, value });

const prompt = (i: number): number[] =>
  Array.from({ length: 3 + ((i * 5) % 29) }, (_, j) => (i * 31 + j * 17 + 3) % 190);
const isOdd = (i: number): boolean => i % 4 === 1;
/** In every fourth row the odd token, at the end or in the middle of its prompt; greedy and sampled rows. */
const rows = (odd: boolean): Row[] =>
  Array.from({ length: 24 }, (_, i) => ({
    id: i,
    maxNewTokens: 1 + ((i * 3) % 6),
    ...(i % 3 === 0 && { temperature: 0.8, seed: i, repetitionPenalty: 1.2 }),
    tokens: prompt(i).map((token, j, all) =>
      odd && isOdd(i) && j === (i % 8 === 1 ? all.length - 1 : 1) ? ODD : token,
    ),
  }));

async function generate(options: EngineOptions, given: readonly Row[], run: RunOptions = {}): Promise<RowResult[]> {
  await using engine = await Engine.open({
    batchSize: 4,
    batches: 2,
    tokensPerSquare: 16,
    disk: join(folder, 'disk'),
    ...options,
  });
  return await collect(engine.generate(given, run));
}

/** The rows without the odd token as in a sound model; the others say that they are none. */
function expectOthersAsBefore(found: readonly RowResult[], sound: readonly RowResult[]): void {
  expect(found).toHaveLength(sound.length);
  for (const [i, row] of found.entries()) {
    if (!isOdd(i)) {
      expect(row).toEqual(sound[i]);
      continue;
    }
    expect(row).toMatchObject({
      id: i,
      index: i,
      text: '',
      tokens: [],
      finishReason: 'error',
      error: { code: 'numeric' },
    });
    // Of the token whose next one there is not: the last of the prompt.
    expect(row.error?.message).toContain(`the logits after position ${prompt(i).length - 1} are not finite`);
  }
}

describe('a row whose logits are not finite is an error row, and costs no other a bit', () => {
  const CASES: readonly (readonly [string, Partial<EngineOptions>, RunOptions])[] = [
    ['greedy and sampled', {}, {}],
    ['with log-probabilities', {}, { logprobs: 2 }],
    ['with their own alone', { batchSize: 9, tokensPerSquare: 64 }, { logprobs: 0 }],
    ['row by row, in a serial pipeline', {}, { schedule: rowByRow(), pipeline: serialPipeline }],
    ['in blocks, as they are complete', {}, { schedule: zigZagBlock() }],
    ['in 32 bits', { precision: 'float32' }, { logprobs: 1 }],
    ['with a cache of 4 bits, sparse', { compressCache: '4bit', sparseAttention: 0.5 }, {}],
    ['with a cache of 8 bits', { compressCache: '8bit' }, { logprobs: 1 }],
    [
      'from disk',
      { weights: { cpu: 0, disk: 1 }, cache: { cpu: 0.5, disk: 0.5 }, activations: { cpu: 0.5, disk: 0.5 } },
      {},
    ],
    ['in plain C++', { instructionSet: 'scalar' }, {}],
  ];
  test.each(CASES)('%s', async (_, options, run) => {
    for (const value of [NaN, Infinity]) {
      const path = await oddEmbedding(value);
      expectOthersAsBefore(
        await generate({ model: path, ...options }, rows(true), run),
        await generate({ model: SOUND, ...options }, rows(false), run),
      );
    }
  });

  test.each(['none', '8bit', '4bit'] as const)(
    'values that are infinite go through a cache of every kind (%s) as such',
    async (compressCache) => {
      const path = await overwritten({ role: 'v.weight', layer: 1, row: 3, column: 5, value: Infinity });
      const options = { model: path, compressCache };
      const found = [
        ...(await generate(options, rows(false))),
        ...(await generate({ ...options, sparseAttention: 0.5 }, rows(false))),
      ];
      for (const { error } of found)
        expect(error).toMatchObject({
          code: 'numeric',
          message: expect.stringContaining('after layer 1:') as unknown,
        });
    },
  );

  test('the engine of the last layers samples, the first one owns the row', async () => {
    const path = await oddEmbedding(NaN);
    const expected = await generate({ model: SOUND }, rows(false), { logprobs: 1 });
    await using ring = await engineRing([1, 1], { model: path, batchSize: 4, batches: 2, tokensPerSquare: 16 });
    const [first, last] = ring.engines;
    const [own, others] = ring.connect();
    if (!first || !last || !own || !others) throw new RangeError('a ring of two');
    const [found] = await Promise.all([
      collect(first.generate(rows(true), { logprobs: 1, peers: own })),
      last.follow(others),
    ]);
    expectOthersAsBefore(found, expected);
    // Of the layers that it has itself the last engine names the first, by its number in the model.
    expect(found[1]?.error?.message).toContain('nor is the hidden state after layer 1');
  });

  test('after tokens that are fine: the row says at which position, statistics count it', async () => {
    // Whoever follows token 7 greedily is odd from there on: its embedding is.
    const [whole] = await generate({ model: SOUND }, [{ tokens: [3, 9, 27], maxNewTokens: 5 }]);
    const second = whole?.tokens[1] ?? -1;
    const path = await overwritten({ role: 'token_embedding', row: second, value: NaN });
    let stats: RunStats | undefined;
    const [row] = await generate({ model: path }, [{ tokens: [3, 9, 27], maxNewTokens: 5 }], {
      onStats: (all) => (stats = all),
    });
    expect(row?.error).toMatchObject({
      code: 'numeric',
      message: expect.stringContaining(
        'after position 4 are not finite, nor is the hidden state after layer 0',
      ) as unknown,
    });
    expect(stats?.rows).toMatchObject({ done: 0, failed: 1 });
  });

  test('what is odd is named: a layer, or nothing before the head', async () => {
    const message = async (...overwrites: Overwrite[]): Promise<string | undefined> =>
      (await generate({ model: await overwritten(...overwrites) }, [{ tokens: [1, 2] }]))[0]?.error?.message;
    expect(await message({ role: 'down.weight', layer: 1, row: 3, value: NaN })).toContain(
      'nor is the hidden state after layer 1:',
    );
    expect(await message({ role: 'norm1.weight', layer: 0, row: 3, value: -Infinity })).toContain('after layer 0:');
    expect(await message({ role: 'head.weight', row: 77, value: NaN })).toContain('position 1 are not finite: found');
    // Numbers that are too large for what they are multiplied in.
    expect(await message({ role: 'o.weight', layer: 0, row: 0, value: 3e38 })).toMatch(/after layer [01]:/);
    expect(await message({ role: 'final_norm.weight', row: 3, value: Infinity })).toContain(
      'position 1 are not finite: found',
    );
  });
});

describe('perplexity of a text with such a token', () => {
  test('is an error that names the position, and none for a text without', async () => {
    const path = await oddEmbedding(NaN);
    await using engine = await Engine.open({ model: path, cpuMemory: '4GiB' });
    const text = Array.from({ length: 40 }, (_, i) => (i * 7) % 190);
    await expect(engine.perplexity(text, { window: 16 })).resolves.toMatchObject({ tokens: 37 });
    text[21] = ODD;
    const failure: unknown = await engine.perplexity(text, { window: 16 }).catch((error: unknown) => error);
    expect(failure).toBeInstanceOf(RowError);
    expect(failure).toMatchObject({
      rowCode: 'numeric',
      message: expect.stringContaining('the logits after position 21 are not finite') as unknown,
    });
    // The engine is as good as before.
    text[21] = 5;
    await expect(engine.perplexity(text, { window: 16 })).resolves.toMatchObject({ tokens: 37 });
  });
});
