import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { describe, expect, jest, test } from '@jest/globals';
import { drained } from '../../../src/collections/drained.js';
import { JobFileError } from '../../../src/errors/JobFileError.js';
import { UsageError } from '../../../src/errors/UsageError.js';
import { type Converter, type DuckDbVector, valueReaders, valuesOfRow } from '../../../src/jobs/input/duckDbValues.js';
import { COUNTED_BYTES, duckDbRows, MEMORY } from '../../../src/jobs/input/duckDbRows.js';
import type { QueryRow } from '../../../src/jobs/input/OpenQuery.js';
import { readSql } from '../../../src/jobs/input/readSql.js';
import { wholeNumbers } from '../../../src/jobs/input/wholeNumbers.js';
import { runJob } from '../../../src/jobs/runJob.js';
import { failureOf } from '../formats/support.js';
import { collect, temporaryFolder } from '../support/files.js';
import { StubEngine } from '../support/stubEngine.js';

/** It is a peer, which users install. */
function installed(): boolean {
  try {
    createRequire(import.meta.url).resolve('@duckdb/node-api');
    return true;
  } catch {
    return false;
  }
}

const path = temporaryFolder();

/** The rows of a query, whose values are made in this process. */
async function* rowsHere(sql: string): AsyncGenerator<QueryRow, void, undefined> {
  await using query = await duckDbRows({ sql, database: MEMORY, temporary: path('spill') });
  for await (const chunk of query.chunks()) yield* chunk;
}

/** The values of the next one. */
async function nextHere(rows: AsyncGenerator<QueryRow, void, undefined>, columns = [0]): Promise<unknown> {
  const step = await rows.next();
  return step.done === true ? undefined : drained(step.value.values(columns, Infinity));
}

const TABLE =
  "create table t as select i::bigint as id, 'p' || i as prompt, (i * 0.5)::decimal(9, 2) as price, [i] as tags from range(5) r(i); select * from t order by id";

test('wrong arguments are refused at once', () => {
  expect(() => readSql(' ')).toThrow(UsageError);
  expect(() => readSql('select 1', { table: 'x' } as object)).toThrow(UsageError);
});

(installed() ? test.skip : test)('without DuckDB the error says what to install', async () => {
  const error = await failureOf(collect(readSql('select 1')));
  expect(error).toBeInstanceOf(UsageError);
  expect(error.message).toContain('npm install @duckdb/node-api');
});

(installed() ? describe : describe.skip)(
  'with @duckdb/node-api (skipped where this optional peer is not installed)',
  () => {
    test('the rows of the last statement, with all columns where they are kept', async () => {
      expect((await collect(readSql(TABLE))).slice(0, 1)).toEqual([{ id: 0, prompt: 'p0' }]);
      const [first] = await collect(
        readSql("select 9007199254740993 as id, 7::bigint as n, 'x' as question", {
          columns: { prompt: 'question' },
          carryFields: true,
        }),
      );
      expect(first).toEqual({
        id: '9007199254740993',
        prompt: 'x',
        carry: { id: '9007199254740993', n: 7, question: 'x' },
      });
    });

    test('whole numbers are numbers wherever they stand in a value, and text where a number would lose digits', async () => {
      const [asked] = await collect(readSql('select [1, 2, 3]::bigint[] as tokens'));
      expect(asked).toEqual({ id: 1, duplicate: false, tokens: [1, 2, 3] });
      const [row] = await collect(
        readSql(
          `select 'p' prompt, [1, null, 9007199254740993]::bigint[] list, [1, 2]::ubigint[2] pair,
            {'a': 1::hugeint, 'b': '7', 'deep': [{'n': 2::bigint}]} as parts, map {1::bigint: [2::bigint], 3: null} as pairs,
            union_value(num := 5::bigint) either, ['8'] texts, [1.50] decimals, null::bigint[] as nothing`,
          { carryFields: true },
        ),
      );
      expect(row?.carry).toEqual({
        prompt: 'p',
        list: [1, null, '9007199254740993'],
        pair: [1, 2],
        parts: { a: 1, b: '7', deep: [{ n: 2 }] },
        pairs: [
          { key: 1, value: [2] },
          { key: 3, value: null },
        ],
        either: { tag: 'num', value: 5 },
        texts: ['8'],
        decimals: ['1.50'],
        nothing: null,
      });
    });

    test('a value that cannot be made is an error of the database', async () => {
      const { DuckDBVarCharVector } = await import('@duckdb/node-api');
      const made = jest.spyOn(DuckDBVarCharVector.prototype, 'getItem').mockImplementation(() => {
        throw new Error('a value of a kind that nobody knows');
      });
      const error = await failureOf(nextHere(rowsHere("select 'a' as prompt")));
      made.mockRestore();
      expect(error).toBeInstanceOf(JobFileError);
      expect(error.message).toContain('the query failed: a value of a kind that nobody knows');
    });

    test('rows are made one by one, as two thousand of them may be of any size', async () => {
      const { DuckDBVarCharVector } = await import('@duckdb/node-api');
      const made = jest.spyOn(DuckDBVarCharVector.prototype, 'getItem');
      const rows = rowsHere("select i as id, 'a' as prompt, 'n' || i as note from range(100) t(i)");
      expect(await nextHere(rows, [0, 1, 2])).toEqual([0, 'a', 'n0']);
      expect(made).toHaveBeenCalledTimes(2);
      made.mockRestore();
      await rows.return();
    });

    test('of a list that takes too much no more is made than a row may take, whatever it is in', async () => {
      const { DuckDBInstance, JsonDuckDBValueConverter } = await import('@duckdb/node-api');
      const connection = await (await DuckDBInstance.create(':memory:')).connect();
      const texts = "list('item' || i)";
      for (const value of [
        texts,
        `{'a': {'b': ${texts}}}`,
        `map {'a': ${texts}}`,
        `union_value(a := ${texts})`,
        `[[${texts}]]`,
      ]) {
        const answer = await connection.run(`select ${value} from range(100000) t(i)`);
        const vector = (await answer.fetchChunk())?.getColumnVector(0) as unknown as DuckDbVector;
        let made = 0;
        const counting: Converter = (item) => {
          made += 1;
          return item;
        };
        const [reader] = valueReaders(answer.columnTypes(), counting);
        expect(reader && drained(valuesOfRow([[vector, reader]], 0, 2 ** 20))).toBeUndefined();
        // Texts of some 40 bytes.
        expect(made).toBeLessThan(2 ** 20 / 40);
        const [all] = valueReaders(answer.columnTypes(), JsonDuckDBValueConverter as unknown as Converter);
        expect(all && drained(valuesOfRow([[vector, all]], 0, 2 ** 24))).toHaveLength(1);
      }
      connection.closeSync();
    });

    test('a value that is made in one go counts with all that is in it', async () => {
      const { DuckDBInstance, JsonDuckDBValueConverter } = await import('@duckdb/node-api');
      const connection = await (await DuckDBInstance.create(':memory:')).connect();
      for (const value of ['list(i)::variant', "{'x': list(i)::variant}", 'list(i::variant)']) {
        const answer = await connection.run(`select ${value} from range(20000) t(i)`);
        const vector = (await answer.fetchChunk())?.getColumnVector(0) as unknown as DuckDbVector;
        const [reader] = valueReaders(answer.columnTypes(), JsonDuckDBValueConverter as unknown as Converter);
        expect(reader && drained(valuesOfRow([[vector, reader]], 0, 60_000))).toBeUndefined();
        expect(reader && drained(valuesOfRow([[vector, reader]], 0, 2 ** 24))).toHaveLength(1);
      }
      connection.closeSync();
    });

    test('rows of many values are made in slices', async () => {
      const { DuckDBInstance, JsonDuckDBValueConverter } = await import('@duckdb/node-api');
      const connection = await (await DuckDBInstance.create(':memory:')).connect();
      const value = "{'id': i, 'name': 'n' || i}";
      const rows = 20_000;
      for (const [list, steps] of [
        [`list(${value})`, 35],
        ['list(i)', 15],
        [`{'deep': [list(${value})]}`, 35],
        [`map_from_entries(list({'k': i, 'v': ${value}}))`, 35],
        [`union_value(x := list(${value}))`, 35],
        [`list(${value})::struct(id bigint, name varchar)[${rows}]`, 35],
      ] as const) {
        const answer = await connection.run(`select ${list} from range(${rows}) t(i)`);
        const types = answer.columnTypes();
        const chunk = await answer.fetchChunk();
        const readers = valueReaders(types, JsonDuckDBValueConverter as unknown as Converter);
        const vector = chunk?.getColumnVector(0) as unknown as DuckDbVector;
        const work = valuesOfRow([[vector, readers[0] ?? { whole: () => undefined }]], 0, Infinity);
        let slices = 0;
        let step = work.next();
        for (; step.done !== true; step = work.next()) slices += 1;
        expect(slices).toBeGreaterThan(steps);
        const [type] = types;
        const whole = type && wholeNumbers(type)?.(chunk?.convertRowValues(0, JsonDuckDBValueConverter)[0]);
        // Deep equality of some millions of values takes jest minutes.
        expect(JSON.stringify(step.value) === JSON.stringify([whole])).toBe(true);
      }
      connection.closeSync();
    });

    test('values are the same where the package has no parts of them to give', async () => {
      const { DuckDBInstance, JsonDuckDBValueConverter } = await import('@duckdb/node-api');
      const connection = await (await DuckDBInstance.create(':memory:')).connect();
      const answer = await connection.run(
        `select * from (values
          ({'a': 1::bigint, '__proto__x': [null, 'x']}, [[1::bigint], null, []], [1, 2]::bigint[2], map {1::bigint: [2::bigint]}, union_value(n := 5::bigint)),
          (null, null, null, null, null),
          ({'a': null, '__proto__x': null}, [], [null, 9007199254740993]::bigint[2], map {}, union_value(n := null::bigint)))`,
      );
      const types = answer.columnTypes();
      const chunk = await answer.fetchChunk();
      const readers = valueReaders(types, JsonDuckDBValueConverter as unknown as Converter);
      const hidden = ['getItemVector', 'entryVectorAt', 'listVector', 'childData', 'structVector'];
      for (let row = 0; row < 3; row += 1) {
        const vectors = types.map((_, at) => chunk?.getColumnVector(at) as unknown as DuckDbVector);
        const of = (all: readonly DuckDbVector[]): unknown =>
          drained(
            valuesOfRow(
              all.map((vector, at) => [vector, readers[at] ?? { whole: () => undefined }] as const),
              row,
              Infinity,
            ),
          );
        const older = vectors.map(
          (vector) =>
            ({
              type: vector.type,
              itemCount: vector.itemCount,
              getItem: (at) => vector.getItem(at),
            }) satisfies DuckDbVector,
        );
        expect(older.every((vector) => hidden.every((name) => !(name in vector)))).toBe(true);
        expect(of(vectors)).toEqual(of(older));
      }
      connection.closeSync();
    });

    test('for a template all columns are values, and none has to hold prompts', async () => {
      const [row] = await collect(readSql("select 1 as id, 'x' as subject, null as body", { templated: true }));
      expect(row).toEqual({ id: 1, fields: { id: 1, subject: 'x', body: null } });
    });

    test('a job from a query into a table goes on where it was', async () => {
      const output = path('out.csv');
      const job = (engine: StubEngine): ReturnType<typeof runJob> =>
        runJob({ engine, input: readSql(TABLE, { carryFields: true }), output, resume: true });
      await failureOf(job(new StubEngine({ failAt: 4, width: 1 })));
      const { kept, done } = await job(new StubEngine());
      expect([kept > 0, kept + done]).toEqual([true, 5]);
      expect(readFileSync(output, 'utf8').split('\n').slice(0, 2)).toEqual([
        'id,prompt,price,tags,text,finish_reason,error_code,error_message,prompt_tokens,completion_tokens',
        '0,p0,0.00,[0],P0,stop,,,1,2',
      ]);
    });

    test('the columns of a table stand as the query has them, also where it has no rows', async () => {
      const output = path('columns.csv');
      const results = 'text,finish_reason,error_code,error_message,prompt_tokens,completion_tokens';
      for (const [where, rows] of [
        ['true', 'a,5,x,X,stop,,,1,1\n'],
        ['false', ''],
      ]) {
        const input = readSql(`select 'a' as id, 5 as "2019", 'x' as prompt where ${where}`, { carryFields: true });
        await runJob({ engine: new StubEngine(), input, output, overwrite: true });
        expect(readFileSync(output, 'utf8')).toBe(`id,2019,prompt,${results}\n${rows}`);
      }
    });

    test.each([
      ['selec', 'syntax error'],
      ['select 1; ;;selec 2', 'syntax error'],
      [' -- nothing', 'found no statement'],
      [' ;; /* nothing */ ', 'found no statement'],
      ['select * from no_such', 'no_such does not exist'],
      ["select error('gone') as prompt from range(3)", 'Invalid Input Error: gone; rows that were finished are intact'],
      ['select 1 as x', 'found the columns "x", expected one called prompt'],
    ])('%s: one error', async (sql, words) => {
      const error = await failureOf(collect(readSql(sql)));
      expect(error).toBeInstanceOf(JobFileError);
      expect(error.message).toContain(words);
    });

    test("DuckDB's memory is bounded, and a query that it does not do for is one error", async () => {
      const asked = "select current_setting('memory_limit') || ' ' || current_setting('threads') as prompt";
      expect(await collect(readSql(asked))).toMatchObject([
        { prompt: `${(COUNTED_BYTES / 2 ** 20).toFixed(1)} MiB 1` },
      ]);
      // Without a folder to go on in.
      const sorted = "select i as id, repeat('a', 1000) || i as prompt from range(400000) r(i) order by prompt desc";
      const error = await failureOf(collect(readSql(`set temp_directory = ''; ${sorted}`)));
      expect(error).toBeInstanceOf(JobFileError);
      expect(error.message).toMatch(
        /^SQL: the query failed: (Error: )?Out of Memory Error: .*before the query gives DuckDB more\); rows that were finished/s,
      );
    });

    // Of a column of texts it makes pages of up to some 100 MB.
    test("a Parquet file of DuckDB's own, of long texts, is read within its memory", async () => {
      const file = path('long.parquet');
      const texts = 'select i as id, repeat(md5(i::varchar), 32) as prompt from range(130000) r(i)';
      await collect(
        readSql(`set memory_limit = '1GB'; copy (${texts}) to '${file}' (format parquet); select 1 as prompt`),
      );
      let rows = 0;
      for await (const _ of readSql(`select id, prompt from '${file}'`)) rows += 1;
      expect(rows).toBe(130_000);
    });

    test('a database that is not there', async () => {
      expect(
        (await failureOf(collect(readSql('select 1 as prompt', { database: path('none.duckdb') })))).message,
      ).toContain('database does not exist');
    });

    // DuckDB's streams end there as if there were no more rows.
    test('a query that breaks off behind many rows is an error; what came before it is a row', async () => {
      let rows = 0;
      const read = async (): Promise<void> => {
        for await (const _ of readSql(
          "select case when i = 200000 then error('gone') else 'p' end as prompt from range(220000) r(i)",
          { carryFields: true },
        ))
          rows += 1;
      };
      expect((await failureOf(read())).message).toBe(
        `SQL: the query broke off after row ${rows}, and DuckDB does not say why: a database may have gone away, a value could not be read, or its memory did not do (\`set memory_limit = '1GB'\` before the query gives it more); rows that were finished are intact`,
      );
      expect(rows).toBeGreaterThan(100_000);
    });

    test('a long query comes in its order, whole', async () => {
      let last = -1;
      for await (const { carry } of readSql(
        "select (i * 7919) % 60007 as id, 'p' as prompt from range(60007) r(i) order by id",
        { carryFields: true },
      )) {
        if (carry?.['id'] !== last + 1) throw new Error(`found ${String(carry?.['id'])} behind ${last}`);
        last += 1;
      }
      expect(last).toBe(60_006);
    });

    test.each([
      ["select ';' as prompt; ", [';']],
      ["select 'a;b' as prompt -- ; select 'c'", ['a;b']],
      [
        '/* ; */ create table "t;" as select \'it\'\'s; so\' as prompt; select * from "t;"; -- that was all;',
        ["it's; so"],
      ],
      ["set threads = 1; with a as (select 'x' as prompt) select * from a union all select 'y'", ['x', 'y']],
      ["from (values ('v')) t(prompt)", ['v']],
      ["pivot (select 'q' as prompt, 'k' as k, 1 as n) on k using sum(n)", ['q']],
      ['create table d (prompt int); select column_name as prompt from (describe d)', ['prompt']],
      [
        "create temp table t as select * from (values ('a', true), ('b', false)) t(prompt, ok);\n-- without the filter: all of them; select prompt from t union all\nselect prompt from t where ok",
        ['a'],
      ],
      ["select 'p' as prompt /* old; select 2 */", ['p']],
      ["-- the questions;\nselect 'p' as prompt", ['p']],
      ["/* c */;\nselect 'p' as prompt", ['p']],
      ["  ; select 'p' as prompt", ['p']],
      ['select $$a;b$$ as prompt;', ['a;b']],
      ["create type m as enum ('x'); select 'x'::m as prompt", ['x']],
      ["insert into new values ('r') returning *", ['r']],
      ["begin; create table q as select 'p' as prompt; select * from q", ['p']],
      ["select 'p' as prompt, null, 1::variant as v, row(1, 2) as r", ['p']],
    ])('the last statement is the query: %s', async (sql, prompts) => {
      expect(
        (await collect(readSql(sql.replace(/^insert/, 'create table new (prompt text); insert')))).map(
          (row) => 'prompt' in row && row.prompt,
        ),
      ).toEqual(prompts);
    });

    test('what no table can be made of is read, too', async () => {
      expect(
        await collect(readSql('create table d (x int); describe d', { columns: { prompt: 'column_name' } })),
      ).toEqual([expect.objectContaining({ prompt: 'x' })]);
    });

    test('a file of DuckDB is read under its own name, and not written', async () => {
      const { DuckDBInstance } = await import('@duckdb/node-api');
      const instance = await DuckDBInstance.create(path("shop's.duckdb"));
      const connection = await instance.connect();
      await connection.run("create table asked as select 1 as id, 'x' as prompt");
      connection.closeSync();
      instance.closeSync();
      const database = path("shop's.duckdb");
      expect(await collect(readSql('select * from asked', { database }))).toEqual([{ id: 1, prompt: 'x' }]);
      expect(await collect(readSql('select * from "shop\'s".main.asked', { database }))).toEqual([
        { id: 1, prompt: 'x' },
      ]);
      expect(
        (await failureOf(collect(readSql("insert into asked values (2, 'y') returning *", { database })))).message,
      ).toContain('read-only');
    });
  },
);
