import { readFileSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { runJob, type RunJobOptions } from '../../../src/api/jobs.js';
import { Engine } from '../../../src/index.js';
import { encoderNamed } from '../../support/model/fixtureEncoders.js';
import { tinyChatModel } from '../../support/tinyChatModel.js';
import { temporaryFolder, writeLines } from '../support/files.js';
import { DATABASES, type OpenDatabase } from './support.js';

const path = temporaryFolder();
let engine: Engine;
let encoder: Engine;
let model: AsyncDisposable & { readonly path: string };
beforeAll(async () => {
  model = await tinyChatModel();
  engine = await Engine.open({ model: model.path, batchSize: 4 });
  encoder = await Engine.open({ model: encoderNamed('bert-pairs').path });
});
afterAll(async () => {
  await engine.close();
  await encoder.close();
  await model[Symbol.asyncDispose]();
});

type Cells = Readonly<Record<string, unknown>>;

/** What a database holds where lists and maps have no type of their own, or a client returns them as JSON. */
function plain(value: unknown): unknown {
  if (typeof value === 'string' && /^[[{]/.test(value)) return plain(JSON.parse(value));
  // DuckDB's client lists the entries of a map.
  if (Array.isArray(value) && value.some((each) => typeof each === 'object'))
    return value.every((each: object | null) => each !== null && 'key' in each && 'value' in each)
      ? Object.fromEntries((value as { key: string; value: number }[]).map((each) => [each.key, each.value]))
      : value.map(plain);
  return value ?? undefined;
}

describe.each(DATABASES)('answers in a table of $name', ({ name, missing, open }) => {
  const there = missing === undefined ? test : test.skip;
  let opened: OpenDatabase;
  beforeAll(async () => {
    if (missing === undefined) opened = await open((file) => path(`${name}-${file}`));
  });
  afterAll(async () => {
    if (missing === undefined) await opened[Symbol.asyncDispose]();
  });

  const jobOf = (rows: readonly object[], what: string): Pick<RunJobOptions, 'engine' | 'input'> => {
    const input = path(`${name}-${what}.jsonl`);
    writeLines(input, rows);
    return { engine: what === 'rerank' ? encoder : engine, input };
  };
  /** The same rows in a file of JSON, by result. */
  const inFile = async (job: Omit<RunJobOptions, 'output'>, what: string): Promise<readonly Cells[]> => {
    const output = path(`${name}-${what}-file.jsonl`);
    await runJob({ ...job, output });
    return readFileSync(output, 'utf8')
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line) as Cells);
  };
  const inTable = async (job: Omit<RunJobOptions, 'output'>, table: string): Promise<void> => {
    const output = { table, database: opened.database, journal: path(`${name}-${table}`) };
    await runJob({ ...job, output });
    expect(await runJob({ ...job, output, resume: true })).toMatchObject({ done: 0 });
  };
  const ask = async (columns: readonly string[], table: string): Promise<readonly (readonly unknown[])[]> => {
    const names = columns.map((each) => `"${each}"`).join(', ');
    const rows = await opened.ask(`select ${names} from "${table}" order by "index", "sample"`);
    return rows.map((row) => row.map(plain));
  };

  const prompts = [
    { id: 'a', prompt: 'Well?' },
    { id: 'b', prompt: 7 },
    { id: 'c', prompt: 'So?' },
  ];
  const tasks: readonly [string, readonly object[], Partial<RunJobOptions>, readonly string[]][] = [
    [
      'classify',
      prompts,
      { classify: { labels: ['yes', 'no "ü" \\ud800 \''] } },
      ['label', 'probability', 'probabilities'],
    ],
    ['score', prompts, { score: { completions: ['yes', 'no'] } }, ['scores']],
    ['embed', prompts, { embed: {} }, ['embedding']],
    [
      'rerank',
      [
        { id: 'a', query: 'the cat', documents: ['a dog', 'a cat', ''] },
        { id: 'b', query: 7, document: 'a dog' },
        { id: 'c', query: 'a', document: 'dog' },
      ],
      { rerank: {} },
      ['scores'],
    ],
  ];
  there.each(tasks)('%s: as in a file, a row that failed among them', async (what, rows, task, columns) => {
    const job = { ...jobOf(rows, what), ...task };
    const results = await inFile(job, what);
    await inTable(job, what);
    const found = await ask(['id', ...columns, 'error_code'], what);
    const expected = results.map(({ id, error, ...result }) => [
      id,
      ...columns.map((column) => result[column]),
      (error as { code: string } | undefined)?.code,
    ]);
    expect(expected.map((row) => row.at(-1))).toEqual([undefined, 'invalid-row', undefined]);
    expect(found).toEqual(expected.map((row) => row.map(narrow)));
  });

  there('embeddings as base64, and of few dimensions in columns that are there', async () => {
    const job = jobOf([prompts[0] ?? {}, prompts[2] ?? {}], 'embeddings');
    const codedJob: Omit<RunJobOptions, 'output'> = { ...job, embed: { dimensions: 3, encoding: 'base64' } };
    const coded = await inFile(codedJob, 'coded');
    await inTable(codedJob, 'coded');
    expect(await ask(['embedding'], 'coded')).toEqual(coded.map(({ embedding }) => [embedding]));

    const type = { Postgres: 'double precision[]', DuckDB: 'double[3]', SQLite: 'text' }[name];
    await opened.ask(
      `create table "fixed" ("job" text, "index" bigint, "sample" integer, "id" text, "embedding" ${type},
        "error_code" text, "error_message" text, "prompt_tokens" integer, "completion_tokens" integer, primary key ("job", "index", "sample"))`,
    );
    const plainJob = { ...job, embed: { dimensions: 3 } };
    const vectors = await inFile(plainJob, 'plain');
    await inTable(plainJob, 'fixed');
    expect(await ask(['id', 'embedding'], 'fixed')).toEqual(
      vectors.map(({ id, embedding }) => [id, (embedding as number[]).map((value) => expect.closeTo(value, 6))]),
    );
  });

  there('several samples a row are a row each, and those that the table has lost come again', async () => {
    const job = {
      ...jobOf([prompts[0] ?? {}, { id: 'b', prompt: 'So?' }], 'samples'),
      generate: { samples: 3, temperature: 1, seed: 5, maxNewTokens: 6, ignoreEos: true },
    };
    const results = await inFile(job, 'samples');
    expect(new Set(results.map(({ text }) => text)).size).toBeGreaterThan(2);
    await inTable(job, 'samples');
    const columns = ['id', 'index', 'sample', 'text'];
    const asked = async (): Promise<readonly (readonly string[])[]> =>
      (await opened.ask(`select "id", "index", "sample", "text" from "samples" order by "index", "sample"`)).map(
        (row) => row.map(String),
      );
    const expected = results.map((result) => columns.map((column) => String(result[column])));
    expect(await asked()).toEqual(expected);
    await opened.ask('delete from "samples" where "sample" = 1');
    const output = { table: 'samples', database: opened.database, journal: path(`${name}-samples`) };
    expect(await runJob({ ...job, output, resume: true })).toMatchObject({ done: 0, kept: 6 });
    expect(await asked()).toEqual(expected);
  });
});

/** A number as a column of float32 or of float64 has it. */
function narrow(value: unknown): unknown {
  if (typeof value === 'number') return expect.closeTo(value, 6);
  if (Array.isArray(value)) return value.map(narrow);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([name, each]) => [name, narrow(each)]));
}
