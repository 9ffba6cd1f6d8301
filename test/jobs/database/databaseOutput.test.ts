import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { DatabaseError } from '../../../src/errors/DatabaseError.js';
import { UsageError } from '../../../src/errors/UsageError.js';
import type { JobOptions } from '../../../src/jobs/JobOptions.js';
import { runJob } from '../../../src/jobs/runJob.js';
import { failureOf } from '../formats/support.js';
import { temporaryFolder, writeLines } from '../support/files.js';
import { StubEngine } from '../support/stubEngine.js';
import { DATABASES, type OpenDatabase } from './support.js';

const path = temporaryFolder();

describe.each(DATABASES)('results in a table of $name', ({ name, missing, open }) => {
  const there = missing === undefined ? test : test.skip;
  let opened: OpenDatabase;
  beforeAll(async () => {
    if (missing === undefined) opened = await open((file) => path(`${name}-${file}`));
  });
  afterAll(async () => {
    if (missing === undefined) await opened[Symbol.asyncDispose]();
  });
  const output = (table: string, more: object = {}): { table: string; database: string; journal: string } => ({
    table,
    database: opened.database,
    journal: path(`${name}-${encodeURIComponent(table)}`),
    ...more,
  });
  const numbers = async (sql: string): Promise<readonly (readonly number[])[]> =>
    (await opened.ask(sql)).map((row) => row.map(Number));
  /** Rows, keys that differ, the first and the last. */
  const countOf = async (table: string): Promise<readonly number[] | undefined> =>
    (await numbers(`select count(*), count(distinct "index"), min("index"), max("index") from "${table}"`))[0];
  /** Until there are some rows. */
  const begunIn = async (table: string): Promise<void> => {
    while (((await countOf(table).catch(() => undefined))?.[0] ?? 0) < 100) await sleep(20);
  };
  const rowsOf = (count: number): { id: string; prompt: string }[] =>
    Array.from({ length: count }, (_, at) => ({ id: `row-${at}`, prompt: `p ${at}` }));

  there('the columns of a table, and of answers, each row once; a second run has nothing to do', async () => {
    const input = path(`${name}-in.csv`);
    writeFileSync(input, 'nr,prompt,note\n1,first,"a ""quoted"" note"\n2,second,\n3,third,ünï\n');
    const job: JobOptions = { input, output: output('answers'), columns: { id: 'nr' } };
    expect(await runJob({ engine: new StubEngine(), ...job })).toMatchObject({ done: 3, failed: 0 });
    const rows = await opened.ask(
      'select "index", "sample", "nr", "prompt", "note", "text", "finish_reason", "error_code", "completion_tokens" from "answers" order by "index"',
    );
    expect(rows.map((row) => row.map((value) => (value === null ? null : `${value as string | number}`)))).toEqual([
      ['0', '0', '1', 'first', 'a "quoted" note', 'FIRST', 'stop', null, '5'],
      ['1', '0', '2', 'second', '', 'SECOND', 'stop', null, '6'],
      ['2', '0', '3', 'third', 'ünï', 'THIRD', 'stop', null, '5'],
    ]);
    await expect(runJob({ engine: new StubEngine(), ...job })).rejects.toThrow(/exists; `resume` goes on/);
    expect(await runJob({ engine: new StubEngine(), ...job, resume: true })).toMatchObject({ done: 0, kept: 3 });
    expect(await countOf('answers')).toEqual([3, 3, 0, 2]);
  });

  there('a run that breaks off leaves what it finished; the next one goes on, and each row is there once', async () => {
    const job: JobOptions = { input: rowsOf(1500), output: output('broken'), generate: { order: 'completion' } };
    await failureOf(runJob({ engine: new StubEngine({ failAt: 1200 }), ...job }));
    const [before = 0] = (await countOf('broken')) ?? [];
    expect(before).toBeGreaterThan(1000);
    expect(await runJob({ engine: new StubEngine(), ...job, resume: true })).toMatchObject({ kept: before });
    expect(await countOf('broken')).toEqual([1500, 1500, 0, 1499]);
  });

  there('rows that the table has lost since come again from the journal, and no other is touched', async () => {
    const job: JobOptions = { input: rowsOf(20), output: output('lost') };
    await runJob({ engine: new StubEngine(), ...job });
    await opened.ask('delete from "lost" where "index" in (3, 4, 19)');
    await opened.ask(`update "lost" set "text" = 'by hand' where "index" = 5`);
    await runJob({ engine: new StubEngine(), ...job, resume: true });
    expect(await countOf('lost')).toEqual([20, 20, 0, 19]);
    expect(await opened.ask('select "text" from "lost" where "index" in (4, 5) order by "index"')).toEqual([
      ['P 4'],
      ['by hand'],
    ]);
  });

  there('begun anew its own rows go, and those of other jobs stay', async () => {
    await runJob({ engine: new StubEngine(), input: rowsOf(4), output: output('shared') });
    const other = { ...output('shared'), journal: path(`${name}-shared-2`) };
    await runJob({ engine: new StubEngine(), input: rowsOf(6), output: other });
    await runJob({ engine: new StubEngine(), input: rowsOf(2), output: other, overwrite: true });
    expect(await numbers('select count(*) from "shared" group by "job" order by 1')).toEqual([[2], [4]]);
  });

  there('names of any kind are names', async () => {
    const table = 'a "b" \'; drop table answers; -- $1 ?1';
    const quoted = table.replaceAll('"', '""');
    const carry = { 'select "x"; --': 'v', "o'clock": 1 };
    await runJob({
      engine: new StubEngine(),
      input: [{ id: 'x', prompt: 'p', carry }],
      output: { ...output('hostile'), table: `"${quoted}"` },
      carryFields: true,
    });
    expect(
      (await opened.ask(`select "select ""x""; --", "o'clock" from "${quoted}"`)).map((row) => row.map(String)),
    ).toEqual([['v', '1']]);
  });

  there('columns grow with what rows carry', async () => {
    const rows = [
      { id: 1, prompt: 'p', carry: { n: 1, mixed: 5, later: null } },
      { id: 2, prompt: 'p', carry: { n: 1.5, mixed: 'five', later: true, added: { a: [1] } } },
    ];
    const job = (engine: StubEngine, resume: boolean): ReturnType<typeof runJob> =>
      runJob({ engine, input: rows, output: output('grown'), carryFields: true, resume });
    await failureOf(job(new StubEngine({ failAt: 1, width: 1 }), false));
    await job(new StubEngine(), true);
    const found = await opened.ask('select "n", "mixed", "later", "added" from "grown" order by "index"');
    const truth = name === 'SQLite' ? 1 : true;
    expect(found.map((row, at) => (at === 0 ? row.map((value) => value && Number(value)) : row))).toEqual([
      [1, 5, null, null],
      [1.5, 'five', truth, '{"a":[1]}'],
    ]);
  });

  there('samples have a key each; a row that failed is a row with its error', async () => {
    const engine = new StubEngine({
      answer: (prompt) =>
        prompt === 'bad' ? { finishReason: 'error', error: { code: 'limit', message: 'too long' } } : {},
    });
    await runJob({
      engine,
      input: [
        { id: 'a', prompt: 'good' },
        { id: 'b', prompt: 'bad' },
      ],
      output: output('errors'),
    });
    expect(await opened.ask('select "id", "error_code", "error_message" from "errors" order by "index"')).toEqual([
      ['a', null, null],
      ['b', 'limit', 'too long'],
    ]);
    expect(
      await runJob({
        engine: new StubEngine(),
        input: [
          { id: 'a', prompt: 'good' },
          { id: 'b', prompt: 'bad' },
        ],
        output: output('errors'),
        resume: true,
        retryErrors: true,
      }),
    ).toMatchObject({ done: 1, kept: 1 });
    expect(await opened.ask('select "text", "error_code" from "errors" order by "index"')).toEqual([
      ['GOOD', null],
      ['BAD', null],
    ]);
  });

  there('rows that failed go where `errors` says, and not into the table', async () => {
    const engine = new StubEngine({
      answer: (prompt) =>
        prompt === 'p 1' ? { finishReason: 'error', error: { code: 'limit', message: 'too long' } } : {},
    });
    const errors = path(`${name}-failed.jsonl`);
    expect(await runJob({ engine, input: rowsOf(3), output: output('apart'), errors })).toMatchObject({ failed: 1 });
    expect(await countOf('apart')).toEqual([2, 2, 0, 2]);
    expect(JSON.parse(readFileSync(errors, 'utf8'))).toMatchObject({ id: 'row-1', error: { code: 'limit' } });
  });

  there('a table that is there is taken as it is; all that it lacks is told at once', async () => {
    await opened.ask('create table "narrow" ("job" text, "index" integer, "text" integer, "must" integer not null)');
    const error = await failureOf(runJob({ engine: new StubEngine(), input: rowsOf(1), output: output('narrow') }));
    expect(error).toBeInstanceOf(UsageError);
    for (const words of [
      'no column "sample"',
      'no column "finish_reason"',
      'the column "text" of',
      'the column "must", which no row may leave out',
      'no primary key or unique index of job, index, sample',
    ])
      expect(error.message).toContain(words);
    expect(existsSync(path(`${name}-narrow.rows.jsonl`))).toBe(false);

    await opened.ask(
      `create table "wide" ("job" varchar(40), "index" integer, "sample" smallint, "id" text, "text" text check (length("text") < 10),
        "finish_reason" text, "error_code" text, "error_message" text, "prompt_tokens" bigint, "completion_tokens" integer, "made" text default 'here', unique ("job", "index", "sample"))`,
    );
    const input = [
      { id: 'a', prompt: 'short' },
      { id: 'b', prompt: 'far too long for it' },
      { id: 'c', prompt: 'short' },
    ];
    const job = { engine: new StubEngine(), input, output: output('wide') };
    expect(await runJob(job)).toMatchObject({ done: 3, failed: 1 });
    const rows = await opened.ask('select "id", "text", "error_code", "made" from "wide" order by "index"');
    expect(rows).toEqual([
      ['a', 'SHORT', null, 'here'],
      ['b', null, 'invalid-row', 'here'],
      ['c', 'SHORT', null, 'here'],
    ]);
    // With room for it the row that was refused is as it was answered.
    if (name !== 'Postgres') return;
    await opened.ask('alter table "wide" drop constraint wide_text_check');
    expect(await runJob({ ...job, resume: true })).toMatchObject({ done: 0, kept: 3, failed: 0 });
    expect(await opened.ask('select "text", "error_code" from "wide" where "index" = 1')).toEqual([
      ['FAR TOO LONG FOR IT', null],
    ]);
  });

  there('a row that does not fit goes where `errors` says', async () => {
    await opened.ask(
      `create table "checked" ("job" text, "index" integer, "sample" integer, "id" text, "text" text check (length("text") < 10),
        "finish_reason" text, "error_code" text, "error_message" text, "prompt_tokens" bigint, "completion_tokens" integer, primary key ("job", "index", "sample"))`,
    );
    const errors = path(`${name}-refused.jsonl`);
    const input = [
      { id: 'a', prompt: 'short' },
      { id: 'b', prompt: 'far too long for it' },
    ];
    expect(await runJob({ engine: new StubEngine(), input, output: output('checked'), errors })).toMatchObject({
      failed: 1,
    });
    expect(await countOf('checked')).toEqual([1, 1, 0, 0]);
    expect(JSON.parse(readFileSync(errors, 'utf8'))).toMatchObject({ id: 'b', error: { code: 'invalid-row' } });
  });

  there('characters that a database may not take, and numbers at their ends', async () => {
    const carry = { note: 'zero \0 here', half: '\ud800x', escaped: '\\ud800', most: 2 ** 53 - 1, real: 1e300 };
    const summary = await runJob({
      engine: new StubEngine(),
      input: [
        { id: 'odd', prompt: 'p', carry },
        { id: 'even', prompt: 'p', carry: { ...carry, note: 'x' } },
      ],
      output: output('odd'),
      carryFields: true,
    });
    expect(summary.failed).toBe(name === 'Postgres' ? 1 : 0);
    const [last] = await opened.ask('select "half", "escaped", "most", "real" from "odd" where "index" = 1');
    expect(last?.map(String)).toEqual(['\ufffdx', '\\ud800', String(2 ** 53 - 1), '1e+300']);
  });

  there('an empty input makes the table', async () => {
    await runJob({ engine: new StubEngine(), input: [], output: output('empty') });
    expect(await countOf('empty')).toEqual([0, 0, expect.anything(), expect.anything()]);
  });

  there('a name that stands twice is refused before anything is done', async () => {
    const input = path(`${name}-twice.csv`);
    writeFileSync(input, 'index,prompt\n1,a\n');
    const error = await failureOf(runJob({ engine: new StubEngine(), input, output: output('twice') }));
    expect(error.message).toContain('`resultColumns` (index=NAME)');
    await runJob({
      engine: new StubEngine(),
      input,
      output: output('twice'),
      resultColumns: { index: 'row', job: 'run' },
    });
    expect((await opened.ask('select "index", "row", "text" from "twice"')).map((row) => row.map(String))).toEqual([
      ['1', '0', 'A'],
    ]);
  });

  if (name !== 'Postgres') return;

  there('a schema; one that is not there is told', async () => {
    await opened.ask('create schema "In"');
    await runJob({ engine: new StubEngine(), input: rowsOf(2), output: output('In.side') });
    expect(await opened.ask('select count(*)::int from "In"."side"')).toEqual([[2]]);
    const error = await failureOf(runJob({ engine: new StubEngine(), input: rowsOf(2), output: output('none.side') }));
    expect(error).toBeInstanceOf(DatabaseError);
    expect(error.message).toContain('schema "none" does not exist');
  });

  there('a server that goes away is waited for, and said so; the run goes on', async () => {
    const said: string[] = [];
    const { server } = opened;
    const run = runJob({
      engine: new StubEngine({ delay: () => 4 }),
      input: rowsOf(4000),
      output: output('away', { onNotice: (words: string) => said.push(words) }),
    });
    await begunIn('away');
    await server?.end('SIGKILL');
    await sleep(2000);
    await server?.begin();
    expect(await run).toMatchObject({ done: 4000 });
    expect(await countOf('away')).toEqual([4000, 4000, 0, 3999]);
    expect(said.join('\n')).toMatch(/tried again for up to 300 s; what is finished stands in .*\n.*is back/);
    expect(said.join('\n')).not.toContain('not-to-be-seen');
  });

  there('one that stays away ends the run; what is finished is kept, and goes there once it is back', async () => {
    const { server } = opened;
    const job: JobOptions = {
      input: rowsOf(3000),
      output: output('gone', { waitSeconds: 1 }),
    };
    const run = failureOf(runJob({ engine: new StubEngine({ delay: () => 4 }), ...job }));
    await begunIn('gone');
    await server?.end('SIGKILL');
    const error = await run;
    expect(error).toBeInstanceOf(DatabaseError);
    expect(error.message).toMatch(/^postgres:\/\/127.*for 1 s; what is finished stands in .*, and `resume` goes on$/);
    await server?.begin();
    const { kept, done } = await runJob({ engine: new StubEngine(), ...job, resume: true });
    expect(kept).toBeGreaterThan(0);
    expect(kept + done).toBe(3000);
    expect(await countOf('gone')).toEqual([3000, 3000, 0, 2999]);
  });
});

test.each([
  [{ table: '', database: 'x.duckdb' }, 'as a table'],
  [{ table: 'a.b.c', database: 'x.duckdb' }, 'as a table'],
  [{ table: 'a.', database: 'x.duckdb' }, 'as a table'],
  [{ table: 't', database: 'mysql://u:hidden@h/d' }, 'expected postgres://HOST/DATABASE'],
  [{ table: 't', database: 'postgres://u:hid%den@h/d' }, 'PGPASSWORD'],
  [{ table: 't', database: 'plain' }, 'expected a name that says whose it is to be'],
  [{ table: 'x'.repeat(64), database: 'postgres://h/d' }, 'at most 63'],
  [{ table: 't', database: 'x.duckdb', waitSeconds: -1 }, 'expected seconds'],
  [{ table: 't', database: 'x.duckdb', other: 1 }, 'other'],
])('%j is refused', async (output, words) => {
  const error = await failureOf(runJob({ engine: new StubEngine(), input: [], output }));
  expect(error).toBeInstanceOf(UsageError);
  expect(error.message).toContain(words);
  expect(error.message).not.toMatch(/hid(den|%den)/);
});

test('a file that is no database is not written', async () => {
  writeLines(path('file.duckdb'), ['not a database']);
  const error = await failureOf(
    runJob({ engine: new StubEngine(), input: [], output: { table: 't', database: path('file.duckdb') } }),
  );
  expect(error.message).toContain("neither DuckDB's nor SQLite's");
});
