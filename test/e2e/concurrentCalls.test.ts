import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { from, lastValueFrom, mergeMap, of, toArray } from 'rxjs';
import { Engine, InterruptedError, offloadGenerate, type Row, type RowResult, type RunStats } from '../../src/index.js';
import { collect, model } from './support.js';

/** Rows of unequal lengths; some sample, some are steered. */
function rowsOf(count: number, longest = 24): Extract<Row, { tokens: readonly number[] }>[] {
  return Array.from({ length: count }, (_, i) => ({
    id: i,
    tokens: Array.from({ length: 1 + ((i * 7) % 40) }, (__, j) => (i * 31 + j * 17 + 3) % 250),
    maxNewTokens: 6 + ((i * 5) % longest),
    ...(i % 3 === 1 && { temperature: 0.8, topP: 0.9, seed: i }),
    ...(i % 5 === 2 && { repetitionPenalty: 1.3 }),
    ...(i % 5 === 3 && { presencePenalty: 0.5, frequencyPenalty: 0.4, minNewTokens: 4 }),
  }));
}

const essence = ({ id, text, tokens, finishReason, logprobs, value }: RowResult): unknown => ({
  id,
  text,
  tokens,
  finishReason,
  logprobs,
  value,
});
const wait = (milliseconds: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, milliseconds));

describe.each([
  ['llama-Q4_1.gguf', {}],
  ['gemma3-mixed.gguf', { compressCache: '8bit' as const }],
  ['llama-Q4_1.gguf', { compressCache: '4bit' as const, sparseAttention: 0.3 }],
])('%s, %j: calls that share a run', (name, more) => {
  let engine: Engine;
  beforeAll(async () => {
    engine = await Engine.open({
      model: model(name),
      cpuMemory: '4GiB',
      batchSize: 3,
      batches: 2,
      tokensPerSquare: 16,
      ...more,
    });
  });
  afterAll(() => engine.close());

  test('have the bits that each has alone, also where rows give up their places', async () => {
    const bulk = rowsOf(40);
    const asked = rowsOf(12, 5).map((row) => ({ ...row, tokens: [...row.tokens, 5] }));
    const completions = { completions: [[7, 8, 9], [7, 4], [5]] };
    const alone = await collect(engine.generate(bulk, { logprobs: 2 }));
    const aloneAsked = await collect(engine.generate(asked));
    const aloneScored: unknown[] = [];
    for await (const { scores } of engine.score(asked, completions)) aloneScored.push(scores);
    const embedded: unknown[] = [];
    for await (const { embedding } of engine.embed(asked)) embedded.push(embedding);

    const together = collect(engine.generate(bulk, { logprobs: 2 }));
    const short: RowResult[] = [];
    const scored: unknown[] = [];
    const embeddings: unknown[] = [];
    for (const row of asked) {
      await wait(3);
      short.push(...(await collect(engine.generate([row], { priority: 1 }))));
      for await (const { scores } of engine.score([row], { ...completions, priority: 2 })) scored.push(scores);
      for await (const { embedding } of engine.embed([row])) embeddings.push(embedding);
    }
    expect((await together).map(essence)).toEqual(alone.map(essence));
    expect(short.map(essence)).toEqual(aloneAsked.map(essence));
    expect(scored).toEqual(aloneScored);
    expect(embeddings).toEqual(embedded);
  });

  test('a call for each row gives what one call gives, in batches', async () => {
    const rows = rowsOf(30);
    const one = await collect(engine.generate(rows));
    const stats: RunStats[] = [];
    const merged = await lastValueFrom(
      from(rows).pipe(
        mergeMap((row) => of(row).pipe(offloadGenerate(engine, { onStats: (each) => stats.push(each) }))),
        toArray(),
      ),
    );
    const byId = new Map(merged.map((row) => [row.id, essence(row)]));
    expect(one.map(({ id }) => byId.get(id))).toEqual(one.map(essence));
    // Each call's statistics are of its own row.
    expect(stats.map(({ rows: { done } }) => done)).toEqual(rows.map(() => 1));
    const generated = stats.reduce((sum, { tokens }) => sum + tokens.generated, 0);
    expect(generated).toBe(one.reduce((sum, { tokens }) => sum + tokens.length, 0));
  });

  test('end for themselves: one that is aborted, one that is left, one whose callback throws', async () => {
    const rows = rowsOf(30);
    const one = await collect(engine.generate(rows));
    const abort = new AbortController();
    const aborted = collect(engine.generate(rows, { signal: abort.signal }));
    const thrown = collect(
      engine.generate(rows, {
        onProgress: () => {
          throw new Error('not my day');
        },
      }),
    );
    const whole = collect(engine.generate(rows));
    const left = (async () => {
      for await (const { index } of engine.generate(rows)) if (index === 2) break;
    })();
    await wait(10);
    abort.abort('enough');
    await expect(aborted).rejects.toThrow(InterruptedError);
    await expect(thrown).rejects.toThrow('not my day');
    await left;
    expect((await whole).map(essence)).toEqual(one.map(essence));
  });
});

test('all calls end with the engine', async () => {
  const engine = await Engine.open({ model: model('llama-Q4_1.gguf'), cpuMemory: '4GiB' });
  const both = [engine.generate(rowsOf(200, 200)), engine.embed(rowsOf(4000))].map(async (results) => {
    for await (const _ of results as AsyncIterable<unknown>);
  });
  const ended = Promise.allSettled(both);
  await wait(20);
  await engine.close();
  for (const each of await ended)
    expect(each).toMatchObject({ status: 'rejected', reason: expect.any(InterruptedError) });
});
