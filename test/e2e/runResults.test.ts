import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { lastValueFrom, toArray } from 'rxjs';
import { Engine, InterruptedError, UsageError, type Row, type RunStats } from '../../src/index.js';
import { tinyChatModel } from '../support/tinyChatModel.js';
import { model } from './support.js';

const rows: Row[] = Array.from({ length: 12 }, (_, i) => ({ tokens: [1 + i, 2, 3], maxNewTokens: 1 + (i % 4) }));

async function all<T>(results: AsyncIterable<T>): Promise<T[]> {
  const list: T[] = [];
  for await (const result of results) list.push(result);
  return list;
}

describe('the results of a run', () => {
  let engine: Engine;
  const unhandled: unknown[] = [];
  const note = (reason: unknown): void => void unhandled.push(reason);
  beforeAll(async () => {
    process.on('unhandledRejection', note);
    engine = await Engine.open({ model: model('llama-Q4_1.gguf'), batchSize: 4, tokensPerSquare: 16 });
  });
  afterAll(async () => {
    await engine.close();
    process.off('unhandledRejection', note);
    expect(unhandled).toEqual([]);
  });

  test('bring statistics and progress, those that the callbacks get', async () => {
    const seen: { stats?: RunStats; progress: unknown[] } = { progress: [] };
    const results = engine.generate(rows, {
      onStats: (stats) => (seen.stats = stats),
      onProgress: (progress) => seen.progress.push(progress),
    });
    const progress = lastValueFrom(results.progress$.pipe(toArray()));
    expect(await all(results)).toHaveLength(rows.length);
    const stats = await results.stats;
    expect(stats).toBe(seen.stats);
    expect(stats.rows).toMatchObject({ done: rows.length, failed: 0 });
    expect(await progress).toEqual(seen.progress);
    expect(seen.progress.at(-1)).toMatchObject({ rowsDone: rows.length });
  });

  test('are the same of rows that are classified, scored or embedded', async () => {
    const labels = ['yes', 'no'];
    await using file = await tinyChatModel();
    await using chat = await Engine.open({ model: file.path, batchSize: 4, tokensPerSquare: 64 });
    for (const results of [
      chat.classify(rows, { labels }),
      chat.score(rows, { completions: labels }),
      chat.embed(rows),
    ]) {
      expect(await all<unknown>(results)).toHaveLength(rows.length);
      expect((await results.stats).rows).toMatchObject({ done: rows.length, failed: 0 });
      await expect(lastValueFrom(results.progress$, { defaultValue: 'over' })).resolves.toBe('over');
    }
  });

  test('statistics come without anybody who asks for the end, and where the consumer leaves early', async () => {
    const results = engine.generate([rows[0] as Row]);
    await results.next();
    expect((await results.stats).rows.done).toBe(1);
    const left = engine.generate(rows);
    for await (const _ of left) break;
    expect((await left.stats).rows.done).toBeLessThanOrEqual(rows.length);
  });

  test('a store that does not come back is waited for until the engine is closed', async () => {
    await using other = await Engine.open({ model: model('llama-Q4_1.gguf'), batchSize: 4, tokensPerSquare: 16 });
    let putting = (): void => undefined;
    const put = new Promise<void>((resolve) => (putting = resolve));
    const results = other.generate([rows[0] as Row], {
      reuse: {
        get: () => undefined,
        put: () => {
          putting();
          return new Promise<void>(() => undefined);
        },
      },
    });
    const run = expect(all(results)).rejects.toThrow(InterruptedError);
    await put;
    await sleep(50);
    await other.close();
    await run;
    await expect(results.stats).rejects.toThrow(InterruptedError);
  });

  test('a run that fails rejects them with what the iteration throws; nobody has to look', async () => {
    const torn = new Error('torn');
    const source = function* (): Generator<Row> {
      yield* rows.slice(0, 2);
      throw torn;
    };
    const results = engine.generate(source());
    await expect(all(results)).rejects.toBe(torn);
    await expect(results.stats).rejects.toBe(torn);
    await expect(lastValueFrom(results.progress$, { defaultValue: 'over' })).resolves.toBe('over');
    await expect(all(engine.generate(source()))).rejects.toBe(torn);
    const mine = new Error('mine');
    const thrown = engine.generate(rows, {
      onStats: () => {
        throw mine;
      },
    });
    await expect(all(thrown)).rejects.toBe(mine);
    await expect(thrown.stats).rejects.toBe(mine);
  });

  test('an abort rejects them with InterruptedError, and so does giving up a run that has not begun', async () => {
    const controller = new AbortController();
    const results = engine.generate(rows, { signal: controller.signal });
    await results.next();
    controller.abort('enough');
    await expect(all(results)).rejects.toThrow(InterruptedError);
    await expect(results.stats).rejects.toThrow(InterruptedError);
    const never = engine.generate(rows);
    await never.return();
    await expect(never.stats).rejects.toThrow(InterruptedError);
    await expect(all(never)).resolves.toEqual([]);
  });

  test('return ends at once, also while a row is awaited that never comes', async () => {
    let told = false;
    const silent = {
      [Symbol.asyncIterator]: () => ({
        next: () => new Promise<never>(() => undefined),
        return: () => {
          told = true;
          return Promise.resolve({ done: true as const, value: undefined });
        },
      }),
    };
    const results = engine.generate(silent);
    const pending = results.next();
    await results.return();
    await expect(pending).resolves.toEqual({ done: true, value: undefined });
    expect(told).toBe(true);
    await expect(results.stats).resolves.toMatchObject({ rows: { done: 0, failed: 0 } });
  });

  test('what is refused is refused at once', () => {
    expect(() => engine.generate(rows, { onStats: 5 as never })).toThrow(UsageError);
    expect(() => engine.classify(rows, null as never)).toThrow(UsageError);
    expect(() => engine.embed(rows, { onProgress: 'x' as never })).toThrow(UsageError);
  });
});
