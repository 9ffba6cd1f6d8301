import { readFileSync, truncateSync, writeFileSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { from, lastValueFrom, toArray } from 'rxjs';
import {
  Engine,
  InterruptedError,
  offloadGenerate,
  UsageError,
  type Row,
  type RowResult,
  type RunOptions,
  type RunStats,
} from '../../src/index.js';
import { runJob, type JobSummary } from '../../src/api/jobs.js';
import { readResults, temporaryFolder, writeLines } from '../jobs/support/files.js';
import { model } from './support.js';

const path = temporaryFolder();
let engine: Engine;
beforeAll(async () => {
  engine = await Engine.open({ model: model('llama-Q4_1.gguf'), batchSize: 4, batches: 2, tokensPerSquare: 32 });
});
afterAll(() => engine.close());

async function generate(
  rows: readonly Row[],
  run: RunOptions = {},
): Promise<{ results: RowResult[]; stats: RunStats | undefined }> {
  const results: RowResult[] = [];
  let stats: RunStats | undefined;
  for await (const row of engine.generate(rows, {
    maxNewTokens: 3,
    ignoreEos: true,
    ...run,
    onStats: (final) => (stats = final),
  }))
    results.push(row);
  return { results, stats };
}

const answers = (results: readonly RowResult[]): unknown[] =>
  results.map(({ id, sample, tokens }) => [id, sample, tokens]);

describe('several answers a row', () => {
  test.each([7, 2 ** 32 - 2, 2 ** 33 + 2 ** 32 - 1, Number.MAX_SAFE_INTEGER - 2])(
    'sample k is what the row answers with k added to its seed, in order: %d',
    async (seed) => {
      const row = { tokens: [3, 20, 37], temperature: 1.5, seed };
      const alone = await generate([0, 1, 2].map((sample) => ({ ...row, id: sample, seed: seed + sample })));
      const { results } = await generate([
        { ...row, id: 'a', samples: 3 },
        { ...row, id: 'b' },
      ]);
      expect(answers(results)).toEqual([
        ...alone.results.map(({ tokens }, sample) => ['a', sample, tokens]),
        ['b', undefined, alone.results[0]?.tokens],
      ]);
      expect(results.map(({ index }) => index)).toEqual([0, 0, 0, 1]);
      expect(new Set(results.map(({ tokens }) => tokens.join())).size).toBe(3);
    },
  );

  test('of the run, unless a row says otherwise; greedy ones are computed once', async () => {
    const { results, stats } = await generate(
      [
        { id: 'a', tokens: [3, 20] },
        { id: 'b', tokens: [4, 20], samples: 1 },
      ],
      { samples: 4 },
    );
    expect(results.map(({ id, sample }) => [id, sample])).toEqual([
      ['a', 0],
      ['a', 1],
      ['a', 2],
      ['a', 3],
      ['b', 0],
    ]);
    expect(new Set(results.slice(0, 4).map(({ tokens }) => tokens.join())).size).toBe(1);
    expect(stats).toMatchObject({ rows: { done: 5, failed: 0 }, tokens: { generated: 6 }, sharing: { rowsEqual: 3 } });
  });

  test.each([0, 65_537, 2.5, '2'])(
    'what is no number of samples, %p, is refused before anything is read',
    (samples) => {
      expect(() => engine.generate([], { samples: samples as number })).toThrow(UsageError);
    },
  );

  test('a job that was cut off anywhere goes on by row and sample, to the same bytes', async () => {
    const [input, output] = [path('samples.jsonl'), path('samples.out.jsonl')];
    writeLines(input, [
      { id: 'a', tokens: [3, 20], temperature: 1 },
      { id: 'b', prompt: '', tokens: [] },
      { id: 'c', tokens: [5, 6, 7], samples: 1 },
      { id: 'd', tokens: [9], samples: 4, temperature: 2, seed: 3 },
      'no row',
    ]);
    const run = (more: object = {}): Promise<JobSummary> =>
      runJob({
        engine,
        input,
        output,
        resume: true,
        generate: { maxNewTokens: 2, ignoreEos: true, samples: 3 },
        ...more,
      });
    expect(await run()).toEqual({ rows: 5, done: 10, failed: 2, kept: 0, keptFailed: 0 });
    const whole = readFileSync(output);
    expect(readResults(output).map(({ id, sample, error }) => [id, sample, error?.code])).toEqual([
      ['a', 0, undefined],
      ['a', 1, undefined],
      ['a', 2, undefined],
      ['b', undefined, 'no-prompt'],
      ['c', 0, undefined],
      ['d', 0, undefined],
      ['d', 1, undefined],
      ['d', 2, undefined],
      ['d', 3, undefined],
      [5, undefined, 'invalid-json'],
    ]);
    const lines = whole.toString().split(/(?<=\n)/);
    for (let cut = 0; cut <= whole.length; cut += 41) {
      writeFileSync(output, whole);
      truncateSync(output, cut);
      await run();
      expect(readFileSync(output, 'utf8')).toBe(whole.toString());
    }
    // Any of the lines, in any order, as a run in order of completion leaves them.
    await fc.assert(
      fc.asyncProperty(fc.shuffledSubarray(lines), async (some) => {
        writeFileSync(output, some.join(''));
        expect(await run()).toMatchObject({ rows: 5, kept: some.length, done: lines.length - some.length });
        expect(readFileSync(output, 'utf8')).toBe(whole.toString());
      }),
      { numRuns: 60 },
    );
    expect(await run({ retryErrors: true })).toMatchObject({ done: 2, kept: 8, failed: 2 });
    expect(readFileSync(output, 'utf8')).toBe(whole.toString());
    await expect(run({ generate: { maxNewTokens: 2, ignoreEos: true, samples: 2 } })).rejects.toThrow(
      'samples (was 3, is 2)',
    );
    writeFileSync(output, `${lines.join('')}${lines[1] ?? ''}`);
    await expect(run()).rejects.toThrow('index 0, sample 1 stands twice');
  });
});

describe('equal rows', () => {
  const rows = fc
    .array(
      fc.record({
        which: fc.nat(3),
        seed: fc.nat(1),
        sampled: fc.boolean(),
        more: fc.nat(1),
        samples: fc.option(fc.integer({ min: 1, max: 3 }), { nil: undefined }),
      }),
      { minLength: 1, maxLength: 60 },
    )
    .map((picks) =>
      picks.map(({ which, seed, sampled, more, samples }, id): Row => ({
        id,
        tokens: [which + 3, 9],
        maxNewTokens: 1 + more,
        seed,
        ...(sampled && { temperature: 1 }),
        ...(samples !== undefined && { samples }),
        carry: { id },
      })),
    );

  test('are answered each, with the bits that they have alone, and computed once', async () => {
    await fc.assert(
      fc.asyncProperty(rows, fc.constantFrom('input' as const, 'completion' as const), async (given, order) => {
        const shared = await generate(given, { order, logprobs: 1 });
        const alone = await generate(given, { logprobs: 1, sharePrefixes: false });
        const sorted = shared.results.toSorted((a, b) => a.index - b.index || (a.sample ?? 0) - (b.sample ?? 0));
        expect(order === 'input' ? shared.results : sorted).toEqual(alone.results);
        expect(shared.stats?.rows).toEqual(alone.stats?.rows);
        expect(alone.stats?.sharing.rowsEqual).toBe(0);
        expect((shared.stats?.tokens.generated ?? NaN) <= (alone.stats?.tokens.generated ?? NaN)).toBe(true);
      }),
      { numRuns: 60 },
    );
    const same = Array.from({ length: 500 }, (_, id): Row => ({ id, tokens: [3, 9] }));
    const { stats } = await generate(same);
    expect(stats?.sharing.rowsEqual).toBeGreaterThan(400);
  });

  test('of calls that share a run: what one has answered another one does not compute', async () => {
    const question: Row = { tokens: [3, 9, 4], maxNewTokens: 3, temperature: 1, seed: 7 };
    const [alone] = (await generate([question], { sharePrefixes: false })).results;
    const equal: number[] = [];
    const ask = async (row: Row, options: RunOptions = {}): Promise<RowResult | undefined> => {
      let answer: RowResult | undefined;
      const onStats = ({ sharing }: RunStats): void => void equal.push(sharing.rowsEqual);
      for await (const result of engine.generate([row], { ...options, onStats })) answer = result;
      return answer;
    };
    // As long as one call is under way, they are in one run.
    const bulk = engine.generate(
      Array.from({ length: 4000 }, (_, id): Row => ({ id, tokens: [5, 1 + (id % 200)], maxNewTokens: 20, seed: id })),
      { temperature: 1 },
    );
    await bulk.next();
    const answers = [
      await ask(question),
      await ask(question),
      await ask(question, { logprobs: 1 }),
      await ask({ ...question, seed: 8 }),
      await ask(question, { sharePrefixes: false }),
      await ask(question),
    ];
    await bulk.return();
    expect(equal).toEqual([0, 1, 0, 0, 0, 1]);
    for (const at of [0, 1, 4, 5]) expect(answers[at]).toEqual(alone);
    // That run is over, and its answers with it.
    await ask(question);
    expect(equal.at(-1)).toBe(0);
  });

  test('as a stream, too; and who leaves early leaves nothing behind', async () => {
    const same = Array.from({ length: 300 }, (_, id): Row => ({ id, tokens: [3 + (id % 2), 9] }));
    const results = await lastValueFrom(from(same).pipe(offloadGenerate(engine, { maxNewTokens: 2 }), toArray()));
    expect(results.map(({ id }) => id)).toEqual(same.map(({ id }) => id));
    for (const taken of [1, 7, 120]) {
      let seen = 0;
      for await (const row of engine.generate(same, { maxNewTokens: 2 })) {
        expect(row.tokens).toEqual(results[seen]?.tokens);
        if (++seen === taken) break;
      }
      const controller = new AbortController();
      const stopped = (async () => {
        for await (const row of engine.generate(same, { maxNewTokens: 2, signal: controller.signal }))
          if (row.id === taken) controller.abort();
      })();
      await expect(stopped).rejects.toThrow(InterruptedError);
    }
    expect((await generate(same, { maxNewTokens: 2 })).results.map(({ tokens }) => tokens)).toHaveLength(300);
  });
});
