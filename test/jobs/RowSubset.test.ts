import { existsSync, readFileSync } from 'node:fs';
import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { UsageError } from '../../src/errors/UsageError.js';
import { checkJobOptions } from '../../src/jobs/checkJobOptions.js';
import { RowSubset } from '../../src/jobs/RowSubset.js';
import { runJob, type RunJobOptions } from '../../src/jobs/runJob.js';
import type { RowInput } from '../../src/Row.js';
import { readResults, temporaryFolder, writeLines } from './support/files.js';
import { StubEngine } from './support/stubEngine.js';

const path = temporaryFolder();
let names = 0;

const rows = (count: number): RowInput[] =>
  Array.from({ length: count }, (_, at) => ({ id: `row-${at}`, prompt: `prompt ${at}` }));

function files(lines: readonly unknown[]): { input: string; output: string } {
  names += 1;
  const input = path(`in-${names}.jsonl`);
  writeLines(input, lines);
  return { input, output: path(`out-${names}.jsonl`) };
}

/** What a sample has of rows, by what they say. */
async function drawn(given: readonly RowInput[], sample: number | `${number}%`, seed = 0): Promise<RowInput[]> {
  const subset = await RowSubset.drawn(sample, seed, () => given);
  return given.filter((row, at) => subset.has(row, at));
}

describe('the first rows', () => {
  test('are answered, and a run without a limit goes on with the others, each once, in order', async () => {
    const { input, output } = files(rows(9));
    const engine = new StubEngine();
    const job = { engine, input, output };
    expect(await runJob({ ...job, limit: 4 })).toEqual({ rows: 4, done: 4, failed: 0, kept: 0, keptFailed: 0 });
    expect(readResults(output).map(({ id }) => id)).toEqual(['row-0', 'row-1', 'row-2', 'row-3']);
    expect(await runJob({ ...job, resume: true, limit: 6 })).toMatchObject({ rows: 6, done: 2, kept: 4 });
    // Less than there is: nothing is to be done, and nothing is lost.
    expect(await runJob({ ...job, resume: true, limit: 2 })).toMatchObject({ done: 0, kept: 6 });
    expect(await runJob({ ...job, resume: true })).toMatchObject({ rows: 9, done: 3, kept: 6 });
    expect(engine.admitted).toEqual(rows(9).map(({ id }) => id));
    expect(readResults(output).map(({ index }) => index)).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8]);
  });

  test('of a stream are answered without a look at the rest, which may not have come yet', async () => {
    let asked = 0;
    const endless = async function* (): AsyncGenerator<RowInput> {
      for (;;) {
        asked += 1;
        if (asked > 3) await new Promise(() => undefined);
        yield { prompt: `${asked}` };
      }
    };
    const output = path('endless.jsonl');
    expect(await runJob({ engine: new StubEngine({ width: 2 }), input: endless(), output, limit: 3 })).toMatchObject({
      rows: 3,
      done: 3,
    });
    const all = rows(5).map((_, at) => ({ prompt: `${at + 1}` }));
    expect(await runJob({ engine: new StubEngine(), input: all, output, resume: true })).toMatchObject({
      done: 2,
      kept: 3,
    });
  });

  test('stand in a table, which the whole job writes anew', async () => {
    const { input } = files(rows(5));
    const output = path('limited.csv');
    const job = { engine: new StubEngine(), input, output, carryFields: true };
    await runJob({ ...job, limit: 2 });
    const first = readFileSync(output, 'utf8').trimEnd().split('\n');
    expect(first).toHaveLength(3);
    await runJob({ ...job, resume: true });
    const whole = readFileSync(output, 'utf8').trimEnd().split('\n');
    expect(whole).toHaveLength(6);
    expect(whole.slice(0, 3)).toEqual(first);
  });

  test('more of them than there are is all of them', async () => {
    const { input, output } = files(rows(3));
    expect(await runJob({ engine: new StubEngine(), input, output, limit: 100 })).toMatchObject({ rows: 3, done: 3 });
  });
});

describe('a sample', () => {
  test('is the same whatever the order of the rows, and of a share whatever rows there are beside', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.uniqueArray(fc.string(), { minLength: 1, maxLength: 60 }),
        fc.integer({ min: 1, max: 70 }),
        fc.integer({ min: 0, max: 5 }),
        async (prompts, count, seed) => {
          const given = prompts.map((prompt) => ({ prompt }));
          const texts = (some: readonly RowInput[]): string[] => some.map((row) => JSON.stringify(row)).sort();
          const some = await drawn(given, count, seed);
          expect(some).toHaveLength(Math.min(count, given.length));
          expect(texts(await drawn([...given].reverse(), count, seed))).toEqual(texts(some));
          const share = await drawn(given, '30%', seed);
          expect(await drawn(given.slice(0, 20), '30%', seed)).toEqual(
            share.filter((row) => given.indexOf(row as never) < 20),
          );
        },
      ),
    );
  });

  test('has about its share, other rows for another seed, and rows that say the same by their place', async () => {
    const many = rows(4000);
    const tenth = await drawn(many, '10%');
    expect(tenth.length).toBeGreaterThan(320);
    expect(tenth.length).toBeLessThan(480);
    expect(await drawn(many, '10%', 1)).not.toEqual(tenth);
    expect(await drawn(many, '100%')).toHaveLength(4000);
    expect(
      await drawn(
        Array.from({ length: 10 }, () => ({ prompt: 'same' })),
        4,
      ),
    ).toHaveLength(4);
    // Every part of the input has its share.
    for (const part of [0, 1, 2, 3])
      expect(tenth.filter((row) => Math.floor(many.indexOf(row) / 1000) === part).length).toBeGreaterThan(60);
  });

  test('has rows, too, that JSON cannot write', async () => {
    let deep: unknown = 0;
    for (let depth = 0; depth < 100_000; depth++) deep = [deep];
    const given = [{ fields: { n: 2n ** 60n } }, { fields: { n: 2n ** 61n } }, { fields: { deep } }, { prompt: 'a' }];
    expect(await drawn(given as RowInput[], 3)).toHaveLength(3);
    expect(await drawn(given as RowInput[], '100%')).toHaveLength(4);
  });

  test('is answered first, and the whole job has all rows in order then, each once', async () => {
    const { input, output } = files(rows(40));
    const engine = new StubEngine();
    const job = { engine, input, output };
    const summary = await runJob({ ...job, sample: 7, sampleSeed: 3 });
    expect(summary).toEqual({ rows: 7, done: 7, failed: 0, kept: 0, keptFailed: 0 });
    const some = readResults(output).map(({ index }) => index);
    expect(some).toEqual([...some].sort((a, b) => a - b));
    // Other rows of another sample join them.
    const second = await runJob({ ...job, sample: '25%', resume: true });
    expect(second.done).toBeGreaterThan(0);
    const rest = await runJob({ ...job, resume: true });
    expect(rest.kept + rest.done).toBe(40);
    expect(new Set(engine.admitted).size).toBe(40);
    expect(engine.admitted).toHaveLength(40);
    expect(readResults(output).map(({ index }) => index)).toEqual(Array.from({ length: 40 }, (_, at) => at));
  });

  test('of a stream is a share', async () => {
    const job: RunJobOptions = { engine: new StubEngine(), input: rows(200), output: path('stream.jsonl') };
    await expect(runJob({ ...job, sample: 5 })).rejects.toThrow(
      new UsageError(
        'sample: found 5 rows of an input that comes once, which would have to be read to its end first, expected a share such as 1%',
      ),
    );
    expect(existsSync(path('stream.jsonl'))).toBe(false);
    const { rows: of, done } = await runJob({ ...job, sample: '20%' });
    expect(of).toBe(done);
    expect(done).toBeGreaterThan(20);
    expect(done).toBeLessThan(60);
  });
});

test.each([
  [{ limit: 0 }, 'limit: found 0, expected'],
  [
    { sample: 0 },
    'sample: found 0, expected a whole number from 1 to 1000000, or a share of the rows above 0% and up to 100%',
  ],
  [{ sample: '0%' as const }, 'sample: found "0%", expected'],
  [{ sample: '101%' as const }, 'sample: found "101%", expected'],
  [{ limit: 3, sample: 3 }, 'sample: found 3 beside a limit of 3 rows, expected one of them'],
  [{ sampleSeed: 3 }, 'sampleSeed: found it without a sample'],
  [{ limit: 3, shard: { index: 0, count: 2 } }, 'limit: found it beside a shard'],
])('what cannot be drawn is refused: %j', (options, words) => {
  expect(() => checkJobOptions(options)).toThrow(words);
});
