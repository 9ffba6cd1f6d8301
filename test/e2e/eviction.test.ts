import { beforeAll, describe, expect, test } from '@jest/globals';
import { cpSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Engine, type EngineOptions, type Row, type RowResult, type RunOptions } from '../../src/index.js';
import { diagonalBlock, rowByRow, zigZagBlock } from '../../src/api/schedules.js';
import { evictKeys } from '../../src/model/evictKeys.js';
import { readModel } from '../../src/model/readModel.js';
import { PlainDecoder, softmax } from '../support/model/PlainDecoder.js';
import { crossed, inTurn } from '../support/tries.js';
import { temporaryFolder } from '../jobs/support/files.js';
import { collect, model } from './support.js';

const HEAD = Array.from({ length: 100 }, (_, i) => (i * 7 + 1) % 120);
/** Rows many times as long as what is kept; some begin alike. */
const rows: Row[] = Array.from({ length: 8 }, (_, i) => ({
  id: i,
  tokens: [
    ...(i % 2 === 0 ? HEAD : []),
    ...Array.from({ length: 1 + ((i * 97) % 331) }, (__, j) => (i * 31 + j * 17 + 3) % 120),
  ],
  maxNewTokens: 1 + ((i * 29) % 83),
  ...(i % 3 === 1 && { temperature: 0.8, seed: i, repetitionPenalty: 1.1 }),
}));
const OPENED = { batchSize: 3, batches: 2, tokensPerSquare: 48, threads: 2, precision: 'float32' } as const;
const LAW = 'sinks:4,window:50';

const folder = temporaryFolder()('');

/** A tiny model with a longer context, and another window where one is given. */
function lengthened(name: string, window?: number): string {
  const copy = join(folder, `${name}-${window ?? 'own'}`);
  cpSync(model(name), copy, { recursive: true });
  const config = join(copy, 'config.json');
  const longer = readFileSync(config, 'utf8').replace(/("max_position_embeddings": )128/, '$11024');
  writeFileSync(config, window === undefined ? longer : longer.replace(/("sliding_window": )\d+/, `$1${window}`));
  return copy;
}

async function generate(options: EngineOptions, run: RunOptions = {}): Promise<RowResult[]> {
  await using engine = await Engine.open({ ...OPENED, disk: folder, ...options });
  return await collect(engine.generate(rows, { logprobs: 2, ...run }));
}

/** The first token of these rows, none of which is sampled, is as likely as the definition says. */
function expectFirstTokens(plain: PlainDecoder, results: readonly RowResult[], ...ids: readonly number[]): void {
  for (const id of ids) {
    const result = results.find((each) => each.id === id);
    const logits = plain.logits(rows[id]?.tokens ?? []).at(-1) ?? [];
    const expected = Math.log(softmax([...logits])[result?.tokens?.[0] ?? -1] ?? NaN);
    expect(Math.abs((result?.logprobs?.[0]?.logprob ?? NaN) - expected)).toBeLessThan(1e-3);
  }
}

const MODELS = ['qwen3', 'gemma3', 'qwen3-5-moe', 'gemma4', 'llama4', 'deepseek-v2'];
const CHUNKED = crossed([rowByRow(), zigZagBlock(), diagonalBlock()], [7, 48, 200]);
describe.each(MODELS.map((name, nth) => [name, nth] as const))('keys that are let go: %s', (name, nth) => {
  let path: string;
  let reference: RowResult[];
  beforeAll(async () => {
    path = lengthened(name);
    const alone = { batchSize: 1, batches: 1, tokensPerSquare: 512, threads: 1 };
    reference = await generate({ model: path, kvEviction: LAW, ...alone });
    expect(reference.every(({ error }) => error === undefined)).toBe(true);
  });

  test('leave what a token sees of its position alone: the same bits in any chunks, company, schedule', async () => {
    for (const [schedule, tokensPerSquare] of inTurn(CHUNKED, nth))
      expect(await generate({ model: path, kvEviction: LAW, tokensPerSquare }, { schedule })).toEqual(reference);
  });

  test('change results, but for rows that are no longer than what is kept', async () => {
    const all = await generate({ model: path });
    expect(reference).not.toEqual(all);
    expect(await generate({ model: path, kvEviction: 'sinks:0,window:1024' })).toEqual(all);
  });

  test('are those that the definition says', async () => {
    const source = evictKeys(await readModel(path), { sinks: 4, window: 50 });
    const plain = new PlainDecoder(source);
    expectFirstTokens(plain, reference, 0, 2, 3);
  });
});

test('layers with a window as long as the context keep all of it beside those that let go', async () => {
  const path = lengthened('gemma3', 1024);
  const results = await generate({ model: path, kvEviction: LAW });
  expect(results.map(({ error }) => error)).toEqual(rows.map(() => undefined));
  const plain = new PlainDecoder(evictKeys(await readModel(path), { sinks: 4, window: 50 }));
  expectFirstTokens(plain, results, 6);
});

test('a row many times as long as what is kept takes no more pages', async () => {
  /** More than a row of a page takes. */
  const grown = async (tokens: number, kvEviction: string): Promise<number> => {
    await using engine = await Engine.open({ ...OPENED, model: lengthened('qwen3'), disk: folder, kvEviction });
    const peak = async (count: number): Promise<number> => {
      const row = { id: 0, tokens: Array.from({ length: count }, (_, i) => i % 120), maxNewTokens: 8 };
      const results = engine.generate([row]);
      await collect(results);
      return (await results.stats).memory['cpu']?.peakBytes ?? NaN;
    };
    const page = await peak(8);
    return (await peak(tokens)) - page;
  };
  const [long, all] = [await grown(1000, LAW), await grown(1000, 'none')];
  // A page of sinks, those that 49 + 2 x 48 positions touch, and some that are idle.
  expect(long).toBeGreaterThan(0);
  expect(long).toBeLessThan(all / 3);
});

test('the law is part of what decides results, and is refused where it is none, or not computed', async () => {
  const identity = async (kvEviction?: string): Promise<unknown> => {
    await using engine = await Engine.open({ model: model('qwen3'), ...(kvEviction !== undefined && { kvEviction }) });
    return engine.resultIdentity;
  };
  expect(await identity(LAW)).toMatchObject({ kvEviction: LAW });
  expect(await identity('none')).not.toHaveProperty('kvEviction');
  expect(await identity()).toEqual(await identity('none'));
  for (const kvEviction of ['sinks:4', 'sinks:4,window:0', 'window:4,sinks:1', 'sinks:-1,window:4', ''])
    await expect(Engine.open({ model: model('qwen3'), kvEviction })).rejects.toThrow(
      /kvEviction: found ".*", expected none, or sinks:S,window:N/,
    );
  await expect(Engine.open({ model: model('falcon-rw'), kvEviction: LAW })).rejects.toThrow(/kvEviction: .*ALiBi/);
  const onDisk = { model: model('qwen3'), kvEviction: LAW, cache: { cpu: 0, disk: 1 }, disk: folder };
  await expect(Engine.open(onDisk)).rejects.toThrow(/kvEviction: found a share of the cache on disk/);
});
