import { mkdtempSync, existsSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { readRows } from '../../src/jobs/input/readRows.js';
import { postgresFolder, postgresServer } from '../support/databaseServers.js';
import { testGrammars } from '../support/grammars.js';
import { tinyChatModel } from '../support/tinyChatModel.js';
import { collect } from '../jobs/support/files.js';
import { resultOf, runCli, startCli, until } from './support.js';

/** Recipes of docs/recipes.md, on a tiny random model: what it says means nothing, what becomes of it is checked. */
let model: Awaited<ReturnType<typeof tinyChatModel>>;
let folder: string;
const path = (name: string): string => join(folder, name);
const bodies = [0, 1, 2, 3, 4, 5].map((nth) => `Day ${nth}: rain, und Süßes. `.repeat(4 + 30 * nth));
beforeAll(async () => {
  model = await tinyChatModel();
  folder = mkdtempSync(join(tmpdir(), 'spillway-recipes-'));
  writeFileSync(path('in.csv'), `nr,body\n${bodies.map((body, nth) => `${nth},"${body}"\n`).join('')}`);
});
afterAll(async () => {
  await model[Symbol.asyncDispose]();
  rmSync(folder, { recursive: true, force: true });
});

const argsOf = (command: string, output: string, ...more: readonly string[]): string[] => [
  ...[command, '--model', model.path, '--input', path('in.csv'), '--columns', 'id=nr', '--output', output],
  ...['--prompt-template', command === 'embed' ? '{{body}}' : 'Summarize: {{body}}', '--progress', 'off'],
  ...['--learn', 'off', '--resume', ...more],
];
const SUMMARIES = [
  ...['--chat', 'on', '--chunk-tokens', '400', '--chunk-overlap', '40', '--max-new-tokens', '40'],
  ...['--merge', 'Make one summary of these:', '--ignore-eos'],
];
const tableOf = async (file: string): Promise<readonly Readonly<Record<string, unknown>>[]> =>
  (await collect(readRows(file, { templated: true }))).map((row) => ('fields' in row ? (row.fields ?? {}) : {}));

test('summaries of documents longer than the context: killed at any moment, the table is that of a whole run', async () => {
  const whole = await runCli(argsOf('generate', path('whole.csv'), ...SUMMARIES));
  expect([whole.code, whole.stderr]).toEqual([0, expect.stringContaining('6 rows')]);
  const rows = await tableOf(path('whole.csv'));
  expect(rows.map((row) => [row['nr'], Number(row['parts']) > 1, row['merge_levels']])).toEqual(
    bodies.map((_, nth) => [String(nth), nth > 0, nth > 0 ? '1' : '0']),
  );
  const journal = path('killed.csv.rows.jsonl');
  for (const lines of [1, 3]) {
    const child = startCli(argsOf('generate', path('killed.csv'), ...SUMMARIES, '--batch-size', '2'));
    const ended = resultOf(child);
    const written = (): number => (existsSync(journal) ? readFileSync(journal, 'utf8').split('\n').length - 2 : 0);
    await until(() => written() >= lines || child.exitCode !== null);
    child.kill('SIGKILL');
    await ended;
  }
  expect((await runCli(argsOf('generate', path('killed.csv'), ...SUMMARIES))).code).toBe(0);
  expect(readFileSync(path('killed.csv'), 'utf8')).toBe(readFileSync(path('whole.csv'), 'utf8'));
});

test('vectors of the passages of long texts', async () => {
  const { code } = await runCli(
    argsOf('embed', path('passages.parquet'), '--chunk-tokens', '200', '--chunk-overlap', '40'),
  );
  expect(code).toBe(0);
  const rows = await tableOf(path('passages.parquet'));
  for (const [nth, body] of bodies.entries()) {
    const own = rows.filter((row) => row['nr'] === String(nth));
    const characters = [...body];
    let end = 0;
    for (const [chunk, row] of own.entries()) {
      expect(row).toMatchObject({ body, chunk, embedding: expect.anything() as unknown });
      const passage = characters.slice(Number(row['chunk_start']), Number(row['chunk_end'])).join('');
      expect(Buffer.byteLength(passage)).toBeLessThanOrEqual(200);
      expect(Number(row['chunk_start'])).toBeLessThanOrEqual(end);
      end = Number(row['chunk_end']);
    }
    expect(end).toBe(characters.length);
  }
});

testGrammars('several questions about each row of a table', async () => {
  const questions = [
    { name: 'topic', text: 'Topic?', choices: ['rain', 'sweets'] },
    { name: 'days', text: 'How many?', schema: { type: 'integer', minimum: 0, maximum: 9 } },
  ];
  writeFileSync(path('questions.json'), JSON.stringify(questions));
  const { code } = await runCli(
    argsOf('generate', path('asked.csv'), '--questions', path('questions.json'), '--truncate', 'tail'),
  );
  expect(code).toBe(0);
  for (const row of await tableOf(path('asked.csv'))) {
    expect(['rain', 'sweets']).toContain(row['topic']);
    expect(Number(row['days'])).toBeLessThanOrEqual(9);
    expect(Number(row['topic_confidence'])).toBeGreaterThan(0);
  }
});

const hasDuckDb = ((): boolean => {
  try {
    createRequire(import.meta.url).resolve('@duckdb/node-api');
    return true;
  } catch {
    return false;
  }
})();

(hasDuckDb ? test : test.skip)('a table of CSV into a table of a database, and its parts into another', async () => {
  for (const [table, flags] of [
    ['summaries', SUMMARIES],
    ['parts', SUMMARIES.slice(0, 8)],
  ] as const) {
    const args = [...argsOf('generate', `sql:${table}`, ...flags), '--output-database', path('shop.duckdb')];
    const { code, stderr } = await runCli(args);
    expect([code, stderr]).toEqual([0, expect.stringContaining('6 rows')]);
  }
  const asked = await runCli([
    ...['generate', '--model', model.path, '--database', path('shop.duckdb'), '--dry-run', '--json'],
    ...['--input', 'sql:select nr as id, text as prompt from summaries order by index'],
  ]);
  expect((JSON.parse(asked.stdout) as { rows: number }).rows).toBe(6);
  const { DuckDBInstance } = await import('@duckdb/node-api');
  const instance = await DuckDBInstance.create(path('shop.duckdb'));
  const connection = await instance.connect();
  const counted = await (
    await connection.run(
      'select count(*), count(distinct (index, sample)), max(sample) = max(chunk), count(distinct nr) from parts',
    )
  ).getRowsJson();
  connection.closeSync();
  instance.closeSync();
  const [all, distinct, sameNumber, rows] = counted[0] ?? [];
  expect([Number(all) > 12, all === distinct, sameNumber, Number(rows)]).toEqual([true, true, true, 6]);
});

(postgresFolder() === undefined ? test.skip : test)('a job over a table of Postgres into another', async () => {
  await using server = await postgresServer(postgresFolder() ?? '');
  const database = `postgres://spillway:not-to-be-seen@127.0.0.1:${server.port}/postgres`;
  const args = [
    ...['generate', '--model', model.path, '--input'],
    "sql:select i as id, 'review ' || i as prompt from generate_series(1, 40) i order by i",
    ...['--database', database, '--output', 'sql:labels', '--output-database', database],
    ...['--output-journal', path('labels'), '--max-new-tokens', '4', '--progress', 'off', '--learn', 'off', '--resume'],
  ];
  const first = await runCli(args);
  expect([first.code, first.stderr]).toEqual([0, expect.stringContaining('40 rows')]);
  const again = await runCli(args);
  expect(again.code).toBe(0);
  expect(`${first.stderr}${again.stderr}${readFileSync(path('labels.job.json'), 'utf8')}`).not.toContain(
    'not-to-be-seen',
  );
  expect(statSync(path('labels.rows.jsonl')).size).toBeGreaterThan(0);
});
