import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { checkMembers, type Check } from '../arguments/checkMembers.js';
import { checkBoolean, checkSignal, checkText } from '../arguments/checks.js';
import { text } from '../arguments/memberChecks.js';
import { JobFileError } from '../errors/JobFileError.js';
import { SpillwayError } from '../errors/SpillwayError.js';
import { UsageError } from '../errors/UsageError.js';
import type { RowInput } from '../Row.js';
import { checkColumns } from './checkColumns.js';
import { checkPromptColumn, fieldsOfTable, tableRow } from './formats/tableRow.js';

/** The peer that does the work; it is the user's to install. */
const PACKAGE = '@duckdb/node-api';
/** Types of whole numbers that come as text, as they may be larger than a number holds exactly. */
const WIDE = new Set(['BIGINT', 'UBIGINT', 'HUGEINT', 'UHUGEINT']);

interface Result {
  deduplicatedColumnNames(): readonly string[];
  columnTypes(): readonly { toString(): string }[];
  yieldRowsJson(): AsyncIterable<readonly (readonly unknown[])[]>;
  getRowsJson(): Promise<readonly (readonly unknown[])[]>;
}
interface Connection {
  extractStatements(sql: string): Promise<{ readonly count: number; prepare(at: number): Promise<{ run(): Promise<Result> }> }>;
  run(sql: string): Promise<Result>;
  stream(sql: string): Promise<Result>;
  interrupt(): void;
  closeSync(): void;
}
interface DuckDbInstance {
  connect(): Promise<Connection>;
  closeSync(): void;
}
interface DuckDb {
  readonly DuckDBInstance: { create(path: string, options?: Readonly<Record<string, string>>): Promise<DuckDbInstance> };
}

/** What DuckDB may take for itself, to sort with, say; `set memory_limit = …` before the query changes it. Beyond that it goes on in files. */
const MEMORY = '512MB';
/** Where the rows of the query are put. */
const COPY = 'spillway_rows';

export interface ReadSqlOptions {
  /** A file of DuckDB's, opened for reading alone. Default: a database in memory. Others are attached by the statements before the query. */
  readonly database?: string;
  /** Fields of a row (`prompt`, `id`, …) by the columns that hold them. Default: those of the same name. */
  readonly columns?: Readonly<Record<string, string>>;
  /** Keep all columns, for the result's `row`. Default false. */
  readonly carryFields?: boolean;
  /** All columns are values for a `promptTemplate`: they go into a row's `fields`, and no prompt is looked for. Default false. */
  readonly templated?: boolean;
  /** Interrupts the query. */
  readonly signal?: AbortSignal;
}

const CHECKS: Readonly<Record<keyof ReadSqlOptions, Check>> = {
  database: text("a file's path"), columns: checkColumns, carryFields: checkBoolean, templated: checkBoolean, signal: checkSignal,
};

/**
 * The rows of a query, by DuckDB: its own files, and CSV, Parquet, JSON, Postgres, SQLite, S3 … as its extensions have them. Before the first one comes all are copied to a file in the system's folder
 * for temporary ones (`TMPDIR`), which goes when they have been read: no database is held for as long as a job takes, and what goes wrong in the query is told, where DuckDB's streams end as if there
 * were no more rows. A job that is to be resumed needs the rows in the same order each time: say `order by`. Values are as JSON holds them: decimals, dates, moments and whole numbers beyond 2^53 are text.
 * @param sql one query, after whatever statements it needs (`attach …; select …`)
 * @throws UsageError at once for a wrong argument, and, while it is iterated, where the package `@duckdb/node-api` is not installed; JobFileError where DuckDB fails, or there is no column of prompts
 * @example
 * await runJob({ engine, input: readSql('select id, question as prompt from faq order by id', { database: 'faq.duckdb' }), output: 'answers.parquet' });
 */
export function readSql(sql: string, options: ReadSqlOptions = {}): AsyncGenerator<RowInput, void, undefined> {
  checkText('sql', sql, 'a query');
  if (sql.trim() === '') throw new UsageError('sql: found nothing, expected a query');
  checkMembers('options', options, CHECKS);
  return rowsOf(sql, options);
}

async function* rowsOf(sql: string, { database, columns, carryFields = false, templated = false, signal }: ReadSqlOptions): AsyncGenerator<RowInput, void, undefined> {
  const { DuckDBInstance } = await load();
  const name = database ?? 'SQL';
  const folder = await mkdtemp(join(tmpdir(), 'spillway-sql-'));
  let instance: DuckDbInstance | undefined;
  let connection: Connection | undefined;
  const interrupt = (): void => connection?.interrupt();
  signal?.addEventListener('abort', interrupt);
  try {
    const opened = (instance = await failing(name, () => DuckDBInstance.create(':memory:', { memory_limit: MEMORY, temp_directory: join(folder, 'temporary') })));
    const connected = (connection = await failing(name, () => opened.connect()));
    const { rows, header, types, count } = await failing(name, () => answerOf(connected, sql, database, join(folder, 'rows.duckdb')));
    if (!templated) checkPromptColumn(name, header, columns);
    const fields = fieldsOfTable(name, header, columns);
    const wide = types.map((type) => WIDE.has(type));
    let number = 0;
    const chunks = rows[Symbol.asyncIterator]();
    for (let step = await failing(name, () => chunks.next()); step.done !== true; step = await failing(name, () => chunks.next())) {
      for (const values of step.value) {
        number += 1;
        const { carry, ...row } = tableRow(Object.fromEntries(header.map((column, at) => [column, valueOf(values[at], wide[at] === true)])), fields, number, templated);
        yield carryFields && carry !== undefined ? { ...row, carry } : row;
      }
    }
    if (number !== count) throw new JobFileError(name, `found ${number} rows in the copy of the query's, expected ${count}; rows that were finished are intact`);
  } finally {
    signal?.removeEventListener('abort', interrupt);
    connection?.interrupt();
    connection?.closeSync();
    instance?.closeSync();
    await rm(folder, { recursive: true, force: true });
  }
}

interface Answer {
  readonly rows: AsyncIterable<readonly (readonly unknown[])[]>;
  readonly header: readonly string[];
  readonly types: readonly string[];
  readonly count: number;
}

async function answerOf(connection: Connection, sql: string, database: string | undefined, file: string): Promise<Answer> {
  if (database !== undefined) {
    await connection.run(`attach '${database.replaceAll("'", "''")}' (read_only)`);
    // DuckDB names it, by its file.
    const [[own] = []] = await (await connection.run("select database_name from duckdb_databases() where not internal and path is not null")).getRowsJson();
    await connection.run(`use "${String(own).replaceAll('"', '""')}"`);
  }
  const { before, query } = await lastStatement(connection, sql);
  const statements = before === '' ? undefined : await connection.extractStatements(before);
  for (let at = 0; at < (statements?.count ?? 0); at += 1) await (await statements?.prepare(at))?.run();
  if ((await statementsOf(connection, copyOf(query))) === 0) return answerAtOnce(await connection.run(query));
  await connection.run(`attach '${file.replaceAll("'", "''")}' as ${COPY}`);
  await connection.run(copyOf(query));
  const [[count] = []] = await (await connection.run(`select count(*) from ${COPY}.main.rows`)).getRowsJson();
  const result = await connection.stream(`select * from ${COPY}.main.rows`);
  return { ...columnsOf(result), rows: result.yieldRowsJson(), count: Number(count) };
}

/** What no table can be made of (`describe t`) is short. */
async function answerAtOnce(result: Result): Promise<Answer> {
  const rows = await result.getRowsJson();
  return { ...columnsOf(result), rows: (async function* () { yield rows; })(), count: rows.length };
}

function columnsOf(result: Result): Pick<Answer, 'header' | 'types'> {
  return { header: result.deduplicatedColumnNames(), types: result.columnTypes().map((type) => type.toString()) };
}

function copyOf(query: string): string {
  return `create table ${COPY}.main.rows as ${query}`;
}

/** The last statement, and those before it: parted at the last semicolon that is one for DuckDB's own parser, which finds as many statements in both parts as in the whole. */
async function lastStatement(connection: Connection, sql: string): Promise<{ readonly before: string; readonly query: string }> {
  const { count } = await connection.extractStatements(sql);
  if (count === 0) throw new Error('found no statement, expected a query');
  for (let at = sql.lastIndexOf(';'); at >= 0; at = at === 0 ? -1 : sql.lastIndexOf(';', at - 1)) {
    const [before, query] = [sql.slice(0, at), sql.slice(at + 1)];
    const own = await statementsOf(connection, query);
    if (own > 0 && own + (await statementsOf(connection, before)) === count) return { before, query };
  }
  return { before: '', query: sql };
}

/** How many a text has; none if it cannot be parsed. */
async function statementsOf(connection: Connection, sql: string): Promise<number> {
  try {
    return (await connection.extractStatements(sql)).count;
  } catch {
    return 0;
  }
}

function valueOf(value: unknown, wide: boolean): unknown {
  return wide && typeof value === 'string' && Number.isSafeInteger(Number(value)) ? Number(value) : value;
}

async function load(): Promise<DuckDb> {
  try {
    return (await import(PACKAGE)) as DuckDb;
  } catch (error) {
    throw new UsageError(`SQL needs the package ${PACKAGE}, which cannot be loaded: npm install ${PACKAGE}`, { cause: error });
  }
}

async function failing<T>(name: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (error instanceof SpillwayError) throw error;
    throw new JobFileError(name, `the query failed: ${error instanceof Error ? error.message : String(error)}; rows that were finished are intact`, { cause: error });
  }
}
