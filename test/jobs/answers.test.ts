import { readFileSync, writeFileSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { z } from 'zod';
import { Engine, UsageError, type AnswerStore, type KeptAnswer, type RunStats } from '../../src/index.js';
import { runJob, type JobSummary, type RunJobOptions } from '../../src/api/jobs.js';
import { testGrammars } from '../support/grammars.js';
import { tinyChatModel } from '../support/tinyChatModel.js';
import { temporaryFolder, writeLines } from './support/files.js';

const path = temporaryFolder();
let engine: Engine;
let model: AsyncDisposable & { readonly path: string };
beforeAll(async () => {
  model = await tinyChatModel();
  engine = await Engine.open({ model: model.path, batchSize: 4 });
});
afterAll(async () => {
  await engine.close();
  await model[Symbol.asyncDispose]();
});

const TASKS: readonly (readonly [string, Partial<RunJobOptions>, readonly string[]])[] = [
  ['classify', { classify: { labels: ['yes', 'no'] } }, ['label', 'probability', 'probabilities']],
  ['score', { score: { completions: ['yes', 'no'] } }, ['scores']],
  ['embed', { embed: { dimensions: 3 } }, ['embedding']],
];

describe.each(TASKS)('a job that does %s', (name, task, columns) => {
  const input = (): string => {
    const file = path(`${name}.jsonl`);
    writeLines(file, [
      { id: 'a', prompt: 'Well?' },
      { id: 'b', prompt: 7 },
      { id: 'c', prompt: 'So?' },
      { id: 'a', prompt: 'Once more?' },
      { id: 'd', prompt: 'And?' },
    ]);
    return file;
  };
  const run = (output: string, more: Partial<RunJobOptions> = {}): Promise<JobSummary> =>
    runJob({ engine, input: input(), output, ...task, ...more });

  test('that was cut off anywhere goes on, to the same bytes', async () => {
    const output = path(`${name}.out.jsonl`);
    expect(await run(output)).toEqual({ rows: 5, done: 5, failed: 2, kept: 0, keptFailed: 0 });
    const whole = readFileSync(output);
    const lines = whole
      .toString()
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line) as Record<string, unknown>);
    expect(lines.map(({ id, error }) => [id, (error as { code?: string } | undefined)?.code])).toEqual([
      ['a', undefined],
      ['b', 'invalid-row'],
      ['c', undefined],
      ['a', 'duplicate-id'],
      ['d', undefined],
    ]);
    expect(Object.keys(lines[0] ?? {})).toEqual(['id', 'index', ...columns, 'usage']);
    expect(Object.keys(lines[1] ?? {})).toEqual(['id', 'index', 'usage', 'error']);
    for (let cut = 0; cut <= whole.length; cut += 97) {
      writeFileSync(output, whole.subarray(0, cut));
      await run(output, { resume: true });
      expect(readFileSync(output).equals(whole)).toBe(true);
    }
  });

  test('that was cut off anywhere goes on with answers that last, to the same bytes, and computes none of them again', async () => {
    const output = path(`${name}.reuse.jsonl`);
    const [[kind, options]] = Object.entries(task) as [[string, object]];
    const kept = new Map<string, KeptAnswer>();
    const reuse: AnswerStore = {
      get: (key) => kept.get(key),
      put: (key, answer) => {
        expect(kept.has(key)).toBe(false);
        kept.set(key, answer);
      },
    };
    const stats: RunStats[] = [];
    const again = (more: Partial<RunJobOptions>): Promise<JobSummary> =>
      run(output, { [kind]: { ...options, reuse, onStats: (final: RunStats) => void stats.push(final) }, ...more });
    await again({});
    const whole = readFileSync(output);
    for (let cut = 0; cut <= whole.length; cut += 97) {
      writeFileSync(output, whole.subarray(0, cut));
      const { done, failed } = await again({ resume: true });
      expect(readFileSync(output).equals(whole)).toBe(true);
      expect(stats.at(-1)).toMatchObject({ sharing: { rowsReused: done - failed }, tokens: { prompt: 0 } });
    }
  });

  test('is resumed with the same options alone, and not by another task', async () => {
    const output = path(`${name}.other.jsonl`);
    await run(output);
    await expect(
      run(output, {
        resume: true,
        classify: undefined,
        score: undefined,
        embed: undefined,
        generate: {},
      } as unknown as Partial<RunJobOptions>),
    ).rejects.toThrow(/cannot be resumed/);
  });

  test.each(['csv', 'tsv', 'parquet', 'text'] as const)('writes %s', async (format) => {
    const output = path(`${name}.${format}`);
    await run(output, { outputFormat: format });
    const bytes = readFileSync(output);
    if (format === 'parquet') expect(bytes.subarray(0, 4).toString()).toBe('PAR1');
    else if (format === 'text') expect(bytes.toString().trimEnd().split('\n')).toHaveLength(5);
    else
      expect(
        bytes
          .toString()
          .split('\n')[0]
          ?.split(format === 'csv' ? ',' : '\t'),
      ).toEqual(['id', ...columns, 'error_code', 'error_message', 'prompt_tokens', 'completion_tokens']);
  });

  test('makes prompts of the columns of a table', async () => {
    const table = path(`${name}.table.csv`);
    writeFileSync(table, 'id,text\n1,good\n2,bad\n');
    const output = path(`${name}.templated.jsonl`);
    const [[kind, options]] = Object.entries(task) as [[string, object]];
    expect(
      await run(output, { input: table, [kind]: { ...options, promptTemplate: 'Well: {{text}}?' } }),
    ).toMatchObject({ rows: 2, failed: 0 });
    const written = path(`${name}.written.jsonl`);
    writeLines(path(`${name}.prompts.jsonl`), [
      { id: '1', prompt: 'Well: good?' },
      { id: '2', prompt: 'Well: bad?' },
    ]);
    await run(written, { input: path(`${name}.prompts.jsonl`) });
    const answers = (file: string): unknown[] =>
      readFileSync(file, 'utf8')
        .trim()
        .split('\n')
        .map((line) => (JSON.parse(line) as Record<string, unknown>)[columns[0] ?? '']);
    expect(answers(output)).toEqual(answers(written));
  });

  test('has no place in a batch of completions, unless it embeds, nor beside another task', async () => {
    const batch = run(path(`${name}-batch.jsonl`), { outputFormat: 'openai-batch' });
    await (name === 'embed'
      ? expect(batch).resolves.toMatchObject({ done: 5 })
      : expect(batch).rejects.toThrow(/found openai-batch for/));
    await expect(run(path('x.jsonl'), { generate: {} })).rejects.toThrow(UsageError);
  });
});

test('labels of a table are lists in a column', async () => {
  const input = path('labels.csv');
  writeFileSync(input, 'prompt,labels\nWell?,"[""up"",""down""]"\nSo?,\n');
  const output = path('labels.jsonl');
  await runJob({ engine, input, output, classify: {} });
  const [first, second] = readFileSync(output, 'utf8')
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as { probabilities?: object; error?: { message: string } });
  expect(Object.keys(first?.probabilities ?? {})).toEqual(['up', 'down']);
  expect(second?.error?.message).toContain('labels: found none');
});

testGrammars(
  'answers that a schema of zod makes something of have columns of what it makes; another one is another job',
  async () => {
    const schema = z.object({
      kind: z.enum(['a', 'b']),
      count: z
        .int()
        .min(1)
        .max(9)
        .transform((count) => `${count} pieces`),
      note: z.boolean().default(true),
      size: z.int().min(1).max(9).nullable(),
    });
    const input = path('zod.csv');
    writeFileSync(input, 'prompt\nx\ny\n');
    const output = path('zod-out.csv');
    const run = (more: Partial<RunJobOptions> = {}): Promise<JobSummary> =>
      runJob({ engine, input, output, resume: true, generate: { schema, maxNewTokens: 80 }, ...more });
    expect(await run()).toMatchObject({ done: 2, failed: 0 });
    const [header, ...rows] = readFileSync(output, 'utf8').trim().split('\n');
    expect(header).toBe(
      'prompt,kind,count,note,size,text,finish_reason,error_code,error_message,prompt_tokens,completion_tokens',
    );
    for (const row of rows) expect(row).toMatch(/^[xy],[ab],"""[1-9] pieces""",(true|false),[1-9]?,,stop,,,/);
    expect(await run()).toMatchObject({ done: 0, kept: 2 });
    await expect(run({ generate: { schema: schema.omit({ note: true }), maxNewTokens: 80 } })).rejects.toThrow(
      /differs from the one that began it in responseFormat/,
    );

    // What a schema makes may be nothing that JSON has words for: the row keeps its text.
    const lines = path('zod-out.jsonl');
    expect(
      await run({ output: lines, generate: { schema: z.object({ n: z.int().min(1).max(9).transform(BigInt) }) } }),
    ).toMatchObject({ done: 2, failed: 2 });
    for (const line of readFileSync(lines, 'utf8').trim().split('\n')) {
      expect(JSON.parse(line)).toMatchObject({
        text: expect.stringMatching(/^\{"n":[1-9]\}$/),
        error: {
          code: 'schema',
          message: expect.stringContaining('value: what the schema makes of the answer cannot be written as JSON'),
        },
      });
    }
  },
);
