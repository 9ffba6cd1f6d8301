import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { Subject } from 'rxjs';
import {
  Engine,
  offloadGenerate,
  type EngineOptions,
  type Row,
  type RowResult,
  type RunOptions,
  type RunStats,
} from '../../src/index.js';
import { schedules } from '../support/arbitraryRuns.js';
import { promptTrees } from '../support/promptTrees.js';
import { tinyChatModel } from '../support/tinyChatModel.js';
import { blocks, model } from './support.js';

async function generate(
  engine: Engine,
  rows: readonly Row[],
  run: RunOptions,
): Promise<{ results: RowResult[]; stats: RunStats | undefined }> {
  const results: RowResult[] = [];
  let stats: RunStats | undefined;
  for await (const row of engine.generate(rows, {
    logprobs: 1,
    ignoreEos: true,
    ...run,
    onStats: (final) => {
      stats = final;
    },
  }))
    results.push(row);
  return { results, stats };
}

const MODELS: readonly (readonly [string, Partial<EngineOptions>])[] = [
  ['llama-Q4_1.gguf', {}],
  ['gemma3-mixed.gguf', {}],
  ['mixtral', {}],
  ['gpt-oss-MXFP4.gguf', {}],
  ['falcon-rw', {}],
  ['llama-Q4_1.gguf', { precision: 'float32' }],
  ['llama-Q4_1.gguf', { compressCache: '4bit', sparseAttention: 0.3 }],
  ['gemma2-Q8_0.gguf', { compressCache: '8bit', sparseAttention: 0.3 }],
  ['gemma3-mixed.gguf', { compressCache: '8bit' }],
  ['llama-Q4_1.gguf', { weights: { cpu: 0, disk: 1 } }],
  ['llama-Q4_1.gguf', { cache: { cpu: 0, disk: 1 } }],
  ['gemma3-mixed.gguf', { cache: { cpu: 0.5, disk: 0.5 }, compressCache: '8bit' }],
  ['llama-Q4_1.gguf', { cache: { cpu: 0.3, disk: 0.7 }, activations: { cpu: 0.5, disk: 0.5 }, sparseAttention: 0.3 }],
];

describe.each(MODELS)('%s, %j', (name, more) => {
  test('the same bits with sharing on and off, whatever the tree, the order, the schedule and the chunks', async () => {
    await fc.assert(
      fc.asyncProperty(
        promptTrees(14),
        schedules,
        blocks,
        async (rows, schedule, { batchSize, batches, tokensPerSquare }) => {
          await using engine = await Engine.open({ model: model(name), batchSize, batches, tokensPerSquare, ...more });
          const shared = await generate(engine, rows, { schedule });
          const alone = await generate(engine, rows, { schedule, sharePrefixes: false });
          expect(shared.results).toEqual(alone.results);
          expect(alone.stats?.sharing.promptTokensSaved).toBe(0);
        },
      ),
      { numRuns: 8 },
    );
  });
});

test('statistics say what was saved; memory holds one copy', async () => {
  const common = Array.from({ length: 80 }, (_, i) => (i * 17 + 3) % 250);
  const rows = Array.from({ length: 32 }, (_, id): Row => ({ id, tokens: [...common, id, id + 1], maxNewTokens: 4 }));
  await using engine = await Engine.open({ model: model('llama-Q4_1.gguf'), batchSize: 32, tokensPerSquare: 256 });
  const { stats } = await generate(engine, rows, {});
  expect(stats?.sharing.promptTokensSaved).toBe(31 * 80);
  const shared = stats?.memory['cpu']?.peakBytes ?? NaN;
  const { stats: without } = await generate(engine, rows, { sharePrefixes: false });
  expect(without?.tokens).toEqual(stats?.tokens);
  expect(shared).toBeLessThan(without?.memory['cpu']?.peakBytes ?? NaN);
});

test('of a cache on disk, what rows share is in memory: no page of it is read for anybody', async () => {
  const common = Array.from({ length: 72 }, (_, i) => (i * 17 + 3) % 250);
  // The prefix ends in the middle of a page, which goes on in each row's tail.
  const rows = Array.from({ length: 12 }, (_, id): Row => ({
    id,
    tokens: [...common, ...Array.from({ length: 21 }, (_, i) => (id * 31 + i * 7) % 250)],
    maxNewTokens: 20,
  }));
  await using engine = await Engine.open({
    model: model('llama-Q4_1.gguf'),
    batchSize: 6,
    batches: 2,
    tokensPerSquare: 256,
    cache: { cpu: 0, disk: 1 },
    expectedRows: { promptTokens: 93, newTokens: 20, sharedPrefixTokens: 72, rows: 12 },
  });
  const shared = await generate(engine, rows, {});
  const alone = await generate(engine, rows, { sharePrefixes: false });
  expect(shared.results).toEqual(alone.results);
  expect(shared.stats?.sharing.promptTokensSaved).toBe(11 * 72);
  const read = ({ stats }: typeof shared): number => stats?.bytes.cache['disk→cpu'] ?? NaN;
  expect(read(shared)).toBeGreaterThan(0);
  expect(read(shared)).toBeLessThan(read(alone) / 2);
});

test('rows of an Observable share what those before them have computed', async () => {
  const common = Array.from({ length: 90 }, (_, i) => (i * 17 + 3) % 250);
  await using engine = await Engine.open({ model: model('llama-Q4_1.gguf'), batchSize: 4 });
  const rows$ = new Subject<Row>();
  const results: RowResult[] = [];
  let stats: RunStats | undefined;
  const ended = new Promise<void>((resolve, reject) => {
    rows$
      .pipe(
        offloadGenerate(engine, {
          maxNewTokens: 2,
          ignoreEos: true,
          onStats: (final) => {
            stats = final;
          },
        }),
      )
      .subscribe({
        next: (result) => {
          results.push(result);
          if (results.length < 5) rows$.next({ tokens: [...common, results.length] });
          else rows$.complete();
        },
        error: reject,
        complete: resolve,
      });
  });
  rows$.next({ tokens: [...common, 0] });
  await ended;
  expect(results).toHaveLength(5);
  expect(stats?.sharing.promptTokensSaved).toBe(4 * 90);
});

test('rows with equal short prompts, whose answers are drawn and end when they will, all end, as without sharing', async () => {
  await using chat = await tinyChatModel();
  await using engine = await Engine.open({ model: chat.path, batchSize: 16 });
  const rows = Array.from({ length: 300 }, (_, id) => ({
    id,
    prompt: 'three é',
    maxNewTokens: 1 + ((id * 7) % 40),
    temperature: 1,
    seed: id,
  }));
  const answers = async (sharePrefixes: boolean): Promise<unknown[]> => {
    const tokens: unknown[] = [];
    for await (const result of engine.generate(rows, { sharePrefixes })) tokens.push(result.tokens);
    return tokens;
  };
  expect(await answers(true)).toEqual(await answers(false));
});
