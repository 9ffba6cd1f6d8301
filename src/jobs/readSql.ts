import { checkMembers, type Check } from '../arguments/checkMembers.js';
import { checkBoolean, checkText } from '../arguments/checks.js';
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
}
interface Statement {
  run(): Promise<unknown>;
  stream(): Promise<Result>;
}
interface Connection {
  extractStatements(sql: string): Promise<{ readonly count: number; prepare(at: number): Promise<Statement> }>;
  interrupt(): void;
  closeSync(): void;
}
interface DuckDb {
  readonly DuckDBInstance: { create(path: string, options?: Readonly<Record<string, string>>): Promise<{ connect(): Promise<Connection>; closeSync(): void }> };
}

export interface ReadSqlOptions {
  /** A file of DuckDB's, opened for reading alone. Default: a database in memory. Others are attached by the statements before the query. */
  readonly database?: string;
  /** Fields of a row (`prompt`, `id`, …) by the columns that hold them. Default: those of the same name. */
  readonly columns?: Readonly<Record<string, string>>;
  /** Keep all columns, for the result's `row`. Default false. */
  readonly carryFields?: boolean;
  /** All columns are values for a `promptTemplate`: they go into a row's `fields`, and no prompt is looked for. Default false. */
  readonly templated?: boolean;
}

const CHECKS: Readonly<Record<keyof ReadSqlOptions, Check>> = { database: text("a file's path"), columns: checkColumns, carryFields: checkBoolean, templated: checkBoolean };

/**
 * The rows of a query, by DuckDB: its own files, and CSV, Parquet, JSON, Postgres, SQLite, S3 … as its extensions have them. They are read as they are wanted. A job that is to be resumed
 * needs them in the same order each time: say `order by`. Values are as JSON holds them: decimals, dates, moments and whole numbers beyond 2^53 are text.
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

async function* rowsOf(sql: string, { database = ':memory:', columns, carryFields = false, templated = false }: ReadSqlOptions): AsyncGenerator<RowInput, void, undefined> {
  const { DuckDBInstance } = await load();
  const name = database === ':memory:' ? 'SQL' : database;
  const instance = await failing(name, () => DuckDBInstance.create(database, database === ':memory:' ? {} : { access_mode: 'READ_ONLY' }));
  let connection: Connection | undefined;
  try {
    const opened = await failing(name, () => instance.connect());
    connection = opened;
    const result = await failing(name, () => lastOf(opened, sql));
    const header = result.deduplicatedColumnNames();
    if (!templated) checkPromptColumn(name, header, columns);
    const fields = fieldsOfTable(name, header, columns);
    const wide = result.columnTypes().map((type) => WIDE.has(type.toString()));
    let number = 0;
    const chunks = result.yieldRowsJson()[Symbol.asyncIterator]();
    for (let step = await failing(name, () => chunks.next()); step.done !== true; step = await failing(name, () => chunks.next())) {
      for (const values of step.value) {
        number += 1;
        const { carry, ...row } = tableRow(Object.fromEntries(header.map((column, at) => [column, valueOf(values[at], wide[at] === true)])), fields, number, templated);
        yield carryFields && carry !== undefined ? { ...row, carry } : row;
      }
    }
  } finally {
    connection?.interrupt();
    connection?.closeSync();
    instance.closeSync();
  }
}

async function lastOf(connection: Connection, sql: string): Promise<Result> {
  const statements = await connection.extractStatements(sql);
  if (statements.count === 0) throw new Error('found no statement, expected a query');
  for (let at = 0; at < statements.count - 1; at += 1) await (await statements.prepare(at)).run();
  return (await statements.prepare(statements.count - 1)).stream();
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
