import { checkMembers, type Check } from '../../arguments/checkMembers.js';
import { checkBoolean, checkFunction, checkText } from '../../arguments/checks.js';
import { text } from '../../arguments/memberChecks.js';
import { JobFileError } from '../../errors/JobFileError.js';
import { SpillwayError } from '../../errors/SpillwayError.js';
import { UsageError } from '../../errors/UsageError.js';
import type { RowInput } from '../../Row.js';
import { checkColumns } from '../formats/checkColumns.js';
import type { TakenColumns } from '../formats/RowFormat.js';
import { checkPromptColumn, fieldsOfTable, takenColumns, tableRowInTurns } from '../formats/tableRow.js';
import { loadPeers } from '../loadPeers.js';
import { withoutSecrets } from './sqlSecrets.js';
import { noteDatabase, noteRead, noteTable } from './tableOfRows.js';
import { type DuckDbType, wholeNumbers } from './wholeNumbers.js';

/** The peer that does the work; it is the user's to install. */
const PACKAGE = '@duckdb/node-api';

type Rows = readonly (readonly unknown[])[];
interface Result {
  deduplicatedColumnNames(): readonly string[];
  columnTypes(): readonly DuckDbType[];
  yieldRowsJson(): AsyncIterable<Rows>;
}
interface Statement {
  readonly columnCount: number;
  run(): Promise<Result>;
  destroySync(): void;
}
interface Connection {
  extractStatements(sql: string): Promise<{ readonly count: number; prepare(at: number): Promise<Statement> }>;
  prepare(sql: string): Promise<Statement>;
  run(sql: string): Promise<Result>;
  stream(sql: string): Promise<Result>;
  interrupt(): void;
  closeSync(): void;
}
interface DuckDb {
  readonly DuckDBInstance: {
    create(
      path: string,
      options?: Readonly<Record<string, string>>,
    ): Promise<{ connect(): Promise<Connection>; closeSync(): void }>;
  };
}

export interface ReadSqlOptions {
  /**
   * A file of DuckDB's, opened for reading alone. Default: a database in memory. Others are attached by the statements
   * before the query.
   */
  readonly database?: string;
  /**
   * Fields of a row by the columns that hold them. Default: `id`, `prompt`, `messages`, `tokens`, `labels` and
   * `completions` by those of the same name; parameters (`temperature`, `seed`, …) are in no column that is not named.
   */
  readonly columns?: Readonly<Record<string, string>>;
  /**
   * Whether columns called `labels` and `completions` are a row's own where `columns` does not name them. Default true;
   * false is for a run that says them itself, whose rows may have columns called so that are data.
   */
  readonly ownTexts?: boolean;
  /** Keep all columns as the row's `carry`. Default false. */
  readonly carryFields?: boolean;
  /**
   * All columns are values for a `promptTemplate`: they go into a row's `fields`, and no prompt is looked for. Default
   * false.
   */
  readonly templated?: boolean;
  /** Called once, before the first row, with the columns that hold fields of a row. */
  readonly onColumns?: (columns: TakenColumns) => void;
}

const CHECKS: Readonly<Record<keyof ReadSqlOptions, Check>> = {
  database: text("a file's path"),
  columns: checkColumns,
  ownTexts: checkBoolean,
  carryFields: checkBoolean,
  templated: checkBoolean,
  onColumns: checkFunction,
};

/**
 * The rows of a query, by DuckDB: its own files, and CSV, Parquet, JSON, Postgres, SQLite, S3 … as its extensions have
 * them. They are read as they are wanted, and one that breaks off is an error. A job that is to be resumed needs them
 * in the same order each time: say `order by`. Where a database should not be held for as long as a job takes, copy
 * first: `create temp table asked as select …; select * from asked`. Values are as JSON holds them: decimals, dates,
 * moments and whole numbers beyond 2^53 are text.
 * @param sql one query, after whatever statements it needs (`attach …; select …`)
 * @throws UsageError at once for a wrong argument, and, while it is iterated, where the package `@duckdb/node-api` is
 * not installed; JobFileError where DuckDB fails, or there is no column of prompts
 * @example
 * await runJob({ engine, input: readSql('select id, question as prompt from faq order by id', { database: 'faq.duckdb'
 * }), output: 'answers.parquet' });
 */
export function readSql(sql: string, options: ReadSqlOptions = {}): AsyncGenerator<RowInput, void, undefined> {
  checkText('sql', sql, 'a query');
  if (sql.trim() === '') throw new UsageError('sql: found nothing, expected a query');
  checkMembers('options', options, CHECKS);
  const rows = rowsOf(sql, options, (columns) => {
    if (options.carryFields === true) noteTable(rows, { columns });
  });
  if (options.database !== undefined && options.database !== ':memory:') noteDatabase(rows, options.database);
  return noteRead(rows);
}

async function* rowsOf(
  sql: string,
  { database = ':memory:', columns, ownTexts, carryFields = false, templated = false, onColumns }: ReadSqlOptions,
  onHeader: (columns: readonly string[]) => void,
): AsyncGenerator<RowInput, void, undefined> {
  const [duckDb] = await loadPeers('SQL', PACKAGE);
  const { DuckDBInstance } = duckDb as DuckDb;
  const name = database === ':memory:' ? 'SQL' : withoutSecrets(database);
  const failing = <T>(work: () => Promise<T>): Promise<T> => orFailure(name, `${sql}\n${database}`, work);
  const instance = await failing(() =>
    DuckDBInstance.create(database, database === ':memory:' ? {} : { access_mode: 'READ_ONLY' }),
  );
  let connection: Connection | undefined;
  try {
    const opened = await failing(() => instance.connect());
    connection = opened;
    const { rows, header, types, hasEnd } = await failing(() => answerOf(opened, sql));
    if (!templated) checkPromptColumn(name, header, columns);
    const fields = fieldsOfTable(name, header, columns, ownTexts);
    onHeader(header);
    onColumns?.(takenColumns(fields, header, columns, ownTexts));
    const readers = types.map(wholeNumbers);
    let ended = !hasEnd;
    let number = 0;
    const chunks = rows[Symbol.asyncIterator]();
    for (let step = await failing(() => chunks.next()); step.done !== true; step = await failing(() => chunks.next())) {
      for (const values of step.value) {
        if (hasEnd && values[header.length] === true) {
          ended = true;
          continue;
        }
        number += 1;
        const { carry, ...row } = await tableRowInTurns(
          Object.fromEntries(header.map((column, at) => [column, readers[at]?.(values[at]) ?? values[at]])),
          fields,
          number,
          templated,
        );
        yield carryFields && carry !== undefined ? { ...row, carry } : row;
      }
    }
    if (!ended) {
      throw new JobFileError(
        name,
        `the query broke off behind row ${number}, and DuckDB does not say why: a database may have gone away, or a value could not be read; rows that were finished are intact`,
      );
    }
  } finally {
    connection?.interrupt();
    connection?.closeSync();
    instance.closeSync();
  }
}

interface Answer {
  readonly rows: AsyncIterable<Rows>;
  /** Of the query's columns. */
  readonly header: readonly string[];
  readonly types: readonly DuckDbType[];
  /** Whether a row stands behind those of the query, with true in a column more. */
  readonly hasEnd: boolean;
}

/**
 * What DuckDB streams ends at an error as if there were no more rows: its C interface returns nothing in both cases,
 * and the package does not ask further. So a row of ours comes last.
 * @throws DuckDB's errors
 */
async function answerOf(connection: Connection, sql: string): Promise<Answer> {
  const { before, query } = await lastStatement(connection, sql);
  const statements = before === '' ? undefined : await connection.extractStatements(before);
  for (let at = 0; at < (statements?.count ?? 0); at += 1) await (await statements?.prepare(at))?.run();
  // On a line of its own, as the query may end with a comment.
  const width = await columnsOf(connection, `from (${query}\n)`);
  // What cannot be asked within another query (`call`, `insert … returning`) is made as a whole, and then its errors
  // are told.
  const result = await (width === undefined
    ? connection.run(query)
    : connection.stream(`select *, false from (${query}\n) union all select ${'null, '.repeat(width)}true`));
  const [header, types] = [result.deduplicatedColumnNames(), result.columnTypes()];
  return {
    rows: result.yieldRowsJson(),
    header: header.slice(0, width),
    types: types.slice(0, width),
    hasEnd: width !== undefined,
  };
}

/** How many columns a query has; undefined where it is none. */
async function columnsOf(connection: Connection, query: string): Promise<number | undefined> {
  try {
    const statement = await connection.prepare(query);
    const { columnCount } = statement;
    statement.destroySync();
    return columnCount;
  } catch {
    return undefined;
  }
}

/**
 * The last statement, and those before it: parted at the last semicolon that parts statements for DuckDB's own parser,
 * so that none in a text or a comment is taken for one.
 */
async function lastStatement(
  connection: Connection,
  sql: string,
): Promise<{ readonly before: string; readonly query: string }> {
  for (let at = sql.lastIndexOf(';'); at >= 0; at = at === 0 ? -1 : sql.lastIndexOf(';', at - 1)) {
    const [before, query] = [sql.slice(0, at), sql.slice(at + 1)];
    const [first, last] = [await statementsOf(connection, before), await statementsOf(connection, query)];
    if (first === undefined || last === 0) continue;
    // Behind a semicolon that counts, no parenthesis can close.
    if ((await statementsOf(connection, `${before}; )`)) === undefined)
      return { before: first === 0 ? '' : before, query };
  }
  if ((await statementsOf(connection, sql)) === 0) throw new Error('found no statement, expected a query');
  return { before: '', query: sql };
}

/**
 * How many statements a text has; undefined if it cannot be parsed. DuckDB has no answer for a text without any, so it
 * gets one more.
 */
async function statementsOf(connection: Connection, sql: string): Promise<number | undefined> {
  try {
    return (await connection.extractStatements(`${sql}\n; select 1`)).count - 1;
  } catch {
    return undefined;
  }
}

/** @throws JobFileError, which does not repeat what a statement may hold of secrets */
async function orFailure<T>(name: string, said: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (error instanceof SpillwayError) throw error;
    const words = withoutSecrets(error instanceof Error ? error.message : String(error), said);
    // Not DuckDB's own as the cause: whoever logs an error logs that, too.
    throw new JobFileError(name, `the query failed: ${words}; rows that were finished are intact`, {
      cause: new Error(words),
    });
  }
}
