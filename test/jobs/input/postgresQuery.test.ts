import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { readFileSync } from 'node:fs';
import pg from 'pg';
import { JobFileError } from '../../../src/errors/JobFileError.js';
import { UsageError } from '../../../src/errors/UsageError.js';
import { drained } from '../../../src/collections/drained.js';
import { type PostgresType, readerOf as partsOf } from '../../../src/jobs/input/postgresValues.js';
import { ValueTally } from '../../../src/jobs/input/ValueTally.js';
import { readSql } from '../../../src/jobs/input/readSql.js';
import type { JobOptions } from '../../../src/jobs/JobOptions.js';
import { runJob } from '../../../src/jobs/runJob.js';
import { type DatabaseServer, postgresFolder, postgresServer } from '../../support/databaseServers.js';
import { failureOf } from '../formats/support.js';
import { collect, temporaryFolder } from '../support/files.js';
import { StubEngine } from '../support/stubEngine.js';

const path = temporaryFolder();
const bin = postgresFolder();

const readerOf =
  (type: number, facts?: PostgresType) =>
  (text: string): unknown => {
    const reader = partsOf(type, facts);
    return 'whole' in reader ? reader.whole(text) : drained(reader.parts(text, new ValueTally(Infinity)));
  };

describe('values as Postgres writes them', () => {
  test('whole numbers are numbers as far as these hold them, and moments and decimals text', () => {
    expect([20, 23, 701, 700].map((type) => readerOf(type)('7'))).toEqual([7, 7, 7, 7]);
    expect(readerOf(20)('9007199254740993')).toBe('9007199254740993');
    expect([701, 701, 701].map((type, at) => readerOf(type)(['NaN', '1.5e+300', '-0.25'][at] ?? ''))).toEqual([
      'NaN',
      1.5e300,
      -0.25,
    ]);
    expect(readerOf(1700)('1.50')).toBe('1.50');
    expect([readerOf(16)('t'), readerOf(16)('f'), readerOf(17)('\\x00ff')]).toEqual([true, false, 'AP8=']);
  });

  test('arrays, whatever stands in them', () => {
    const texts = readerOf(1009, { item: 25 });
    expect(texts('{a,NULL,"NULL","b ""c\\" \\\\ ,}",""}')).toEqual(['a', null, 'NULL', 'b ', 'c" \\ ,}', '']);
    expect(readerOf(1007, { item: 23 })('{{1,2},{3,NULL}}')).toEqual([
      [1, 2],
      [3, null],
    ]);
    expect(readerOf(1007, { item: 23 })('[0:1]={5,6}')).toEqual([5, 6]);
    expect(texts('{}')).toEqual([]);
    expect(texts('{"a","b')).toEqual(['a', 'b']);
    expect(() => texts('{'.repeat(20_000))).toThrow('found an array of more than 64 dimensions');
  });
});

test.each(['postgres://a b:c@@', 'postgres://u:hidden%ff@127.0.0.1:1/d', 'postgres://u:hidden%zz@127.0.0.1:1/d'])(
  'an address with what stands for no character is refused, and not repeated: %s',
  async (database) => {
    const error = await failureOf(collect(readSql('select 1', { database })));
    expect(error).toBeInstanceOf(UsageError);
    expect(error.message).toContain('PGPASSWORD');
    expect(`${error.message}${String(error.cause)}`).not.toContain('hidden');
  },
);

(bin === undefined ? describe.skip : describe)('rows of a query of Postgres, by a cursor', () => {
  let server: DatabaseServer;
  let database: string;
  const ask = async (sql: string): Promise<void> => {
    const client = new pg.Client(database);
    await client.connect();
    try {
      await client.query(sql);
    } finally {
      await client.end();
    }
  };
  beforeAll(async () => {
    server = await postgresServer(bin ?? '');
    database = `postgres://spillway:not-to-be-seen@127.0.0.1:${server.port}/postgres`;
    await ask(
      `create table asked as select i::bigint as id, 'review ' || i || repeat(' and so on', i % 7) as prompt from generate_series(0, 4999) i;
       create domain short as text`,
    );
  });
  afterAll(async () => {
    await server[Symbol.asyncDispose]();
  });

  test('values are what readers of tables make of them', async () => {
    const [row] = await collect(
      readSql(
        `select 'p'::short as prompt, null::text as nothing, 1.50::numeric as price,
           9007199254740993 as wide, 7::int8 as n,
           true as yes, '{"a": [1, null]}'::jsonb as json, timestamptz '2026-11-29 12:00:00.5+02' as moment,
           date '2026-11-29' as day, array['x', null, 'y,"z']::text[] as texts, array[[1, 2], [3, 4]] as numbers,
           '\\x00ff'::bytea as bytes, 0.1::float8 as share, 'infinity'::float8 as most, interval '1 day' as span,
           2 as n;`,
        { database, carryFields: true },
      ),
    );
    expect(row).toEqual({
      id: 1,
      duplicate: false,
      prompt: 'p',
      carry: {
        prompt: 'p',
        nothing: null,
        price: '1.50',
        wide: '9007199254740993',
        n: 7,
        yes: true,
        json: '{"a": [1, null]}',
        moment: '2026-11-29 10:00:00.5+00',
        day: '2026-11-29',
        texts: ['x', null, 'y,"z'],
        numbers: [
          [1, 2],
          [3, 4],
        ],
        bytes: 'AP8=',
        share: 0.1,
        most: 'Infinity',
        span: '1 day',
        n_1: 2,
      },
    });
  });

  test('are those of the moment at which it began, as many as are asked for at a time', async () => {
    const rows = readSql('select id, prompt from asked order by id -- all', { database });
    expect((await rows.next()).value).toMatchObject({ id: 0, prompt: 'review 0' });
    await ask("insert into asked values (9999, 'late')");
    const others = await collect(rows);
    expect(others).toHaveLength(4999);
    expect(others.at(-1)).toMatchObject({ id: 4999 });
    await ask('delete from asked where id = 9999');
    const left = readSql('select id, prompt from asked', { database });
    await left.next();
    await left.return();
  });

  test('what is no query, or writes, and who is not let in, is one error without the password', async () => {
    const failing = async (sql: string, url = database): Promise<Error> =>
      failureOf(collect(readSql(sql, { database: url })));
    for (const [sql, words] of [
      ['select 1; select 2', 'multiple commands'],
      ['delete from asked returning id as prompt', 'syntax error'],
      ["select nextval('nothing') as prompt", 'does not exist'],
      ['select id as other from asked', 'prompt'],
    ] as const) {
      const error = await failing(sql);
      expect(error).toBeInstanceOf(JobFileError);
      expect(error.message).toContain(words);
      expect(error.message).toContain(`postgres://127.0.0.1:${server.port}/postgres`);
    }
    await ask('create table written (n int)');
    expect((await failing('select 1 as prompt from written for update')).message).toContain('read-only');
    for (const url of [database.replace(/:\d+\//, ':1/'), database.replace('/postgres', '/nowhere')]) {
      const error = await failing('select 1 as prompt', url);
      expect(error).toBeInstanceOf(JobFileError);
      expect(`${error.message}${String(error.cause)}${error.stack ?? ''}`).not.toContain('not-to-be-seen');
    }
    expect(() => readSql('select 1', { database: 5 as unknown as string })).toThrow('database');
    expect((await failing('select 1', 'postgres://a b:c@@')).message).toMatch(/no URL|invalid/i);
  });

  test('a job goes on with the same query, and is told of another one, fewer rows, and other rows', async () => {
    const output = path('out.jsonl');
    const job = (sql: string, more: Partial<JobOptions> = {}): Parameters<typeof runJob>[0] => ({
      engine: new StubEngine(),
      input: readSql(sql, { database }),
      identity: { input: `sql:${sql}`, database },
      output,
      ...more,
    });
    const all = 'select id, prompt from asked order by id';
    await failureOf(runJob({ ...job(all), engine: new StubEngine({ failAt: 3000 }) }));
    await expect(runJob(job(`${all} desc`, { resume: true }))).rejects.toThrow('input (was "a query of');
    await ask("update asked set prompt = 'changed' where id = 7");
    await expect(runJob(job(all, { resume: true }))).rejects.toThrow(/differs|another input/);
    await ask("update asked set prompt = 'review 7' where id = 7");
    await ask('create table kept as select * from asked where id >= 500; delete from asked where id >= 500');
    await expect(runJob(job(all, { resume: true }))).rejects.toThrow(/the input/);
    await ask('insert into asked select * from kept');
    const summary = await runJob(job(all, { resume: true }));
    expect(summary.kept).toBeGreaterThan(2000);
    expect(summary.kept + summary.done).toBe(5000);
    const ids = readFileSync(output, 'utf8')
      .trimEnd()
      .split('\n')
      .map((line) => (JSON.parse(line) as { id: number }).id);
    expect(ids).toEqual(Array.from({ length: 5000 }, (_, id) => id));
    const record = readFileSync(`${output}.job.json`, 'utf8');
    expect(record).not.toContain('not-to-be-seen');
  });

  test('a server that goes away in mid-query is one error, and the job goes on once it is back', async () => {
    const output = path('away.jsonl');
    const sql = "select id, prompt || repeat('x', 2000) as prompt from asked order by id";
    const options = { input: readSql(sql, { database }), output, identity: { input: `sql:${sql}` } };
    let read = 0;
    const engine = new StubEngine();
    const slow: Pick<StubEngine, 'generate'> = {
      generate: (rows, told) =>
        engine.generate(
          (async function* () {
            for await (const row of rows) {
              if (++read === 1000) await server.end('SIGKILL');
              yield row;
            }
          })(),
          told,
        ),
    };
    const error = await failureOf(runJob({ engine: slow, ...options }));
    expect(error).toBeInstanceOf(JobFileError);
    expect(error.message).toContain('rows that were finished are intact');
    await server.begin();
    const summary = await runJob({ engine, ...options, input: readSql(sql, { database }), resume: true });
    expect(summary.kept).toBeGreaterThan(900);
    expect(summary.kept + summary.done).toBe(5000);
  });
});
