import { JobFileError } from '../../errors/JobFileError.js';
import type { SpillwayError } from '../../errors/SpillwayError.js';
import { loadPeers } from '../loadPeers.js';
import { type Converter, type DuckDbVector, valueReaders, valuesOfRow } from './duckDbValues.js';
import { failureOf, type OpenQuery, type QueryRow } from './OpenQuery.js';
import { withoutSecrets } from './sqlSecrets.js';
import type { DuckDbType } from './wholeNumbers.js';

/** The peer that does the work; it is the user's to install. */
const PACKAGE = '@duckdb/node-api';

interface Chunk {
  readonly rowCount: number;
  getColumnVector(column: number): DuckDbVector;
}
interface Result {
  fetchChunk(): Promise<Chunk | null>;
  deduplicatedColumnNames(): readonly string[];
  columnTypes(): readonly DuckDbType[];
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
  readonly JsonDuckDBValueConverter: Converter;
  readonly DuckDBInstance: {
    create(
      path: string,
      options?: Readonly<Record<string, string>>,
    ): Promise<{ connect(): Promise<Connection>; closeSync(): void }>;
  };
}

/** A database of nobody's. */
export const MEMORY = ':memory:';

/**
 * Bytes that DuckDB may have for a query: for what it sorts, joins, groups and keeps of files. Beyond them it goes on
 * on disk, or the query fails. A page of a Parquet file is whole in memory: those that DuckDB itself writes have up to
 * some 100 MB, for which it takes 128 MiB. The values of the rows that are being read come on top: those it does not
 * count, and its process has to bound.
 */
export const COUNTED_BYTES = 256 * 2 ** 20;
/** The remedy where they do not do. */
export const MORE_MEMORY = "`set memory_limit = '1GB'` before the query gives DuckDB more";
/**
 * Bytes that it makes ahead: of texts it counts the places alone, so that its own megabyte would be some thirty
 * thousand rows of any size.
 */
const BUFFERED = '1KB';
/** Processors that it has at once: the model has the rest, and each has two thousand rows at hand. */
const DUCKDB_THREADS = 1;

/** A query, and where it is asked. */
export interface DuckDbQuery {
  readonly sql: string;
  /** A file, or `MEMORY`. */
  readonly database: string;
  /** The folder for what has no room in memory: it is made when it is needed, and removed at the end. */
  readonly temporary: string;
}

/**
 * A query of DuckDB, whose values are made in this process: `duckDbQuery` has one of its own for it. @throws
 * UsageError, JobFileError
 */
export async function duckDbRows({ sql, database, temporary }: DuckDbQuery): Promise<OpenQuery> {
  const [duckDb] = await loadPeers('SQL', PACKAGE);
  const { DuckDBInstance, JsonDuckDBValueConverter } = duckDb as DuckDb;
  const name = database === MEMORY ? 'SQL' : withoutSecrets(database);
  const said = `${sql}\n${database}`;
  const failing = <T>(work: () => Promise<T>): Promise<T> => orFailed(name, said, work);
  const instance = await failing(() =>
    DuckDBInstance.create(database, {
      memory_limit: `${COUNTED_BYTES / 2 ** 20}MiB`,
      threads: String(DUCKDB_THREADS),
      temp_directory: temporary,
      ...(database !== MEMORY && { access_mode: 'READ_ONLY' }),
    }),
  );
  let connection: Connection | undefined;
  const close = (): Promise<void> => {
    connection?.interrupt();
    connection?.closeSync();
    instance.closeSync();
    return Promise.resolve();
  };
  try {
    const opened = await failing(() => instance.connect());
    connection = opened;
    await failing(() => opened.run(`set streaming_buffer_size = '${BUFFERED}'`));
    const answer = await failing(() => answerOf(opened, sql));
    return {
      name,
      header: answer.header,
      chunks: () => chunksOf(name, said, answer, JsonDuckDBValueConverter),
      [Symbol.asyncDispose]: close,
    };
  } catch (error) {
    await close();
    throw error;
  }
}

/** The error of a query; DuckDB's own advice says nothing of the limit that it has here. */
function failed(name: string, said: string, error: unknown): SpillwayError {
  const words = (error as Partial<Error> | undefined)?.message;
  return failureOf(
    name,
    said,
    words !== undefined && /^(Error: )?Out of Memory|bad_alloc|allocation failed/.test(words)
      ? new Error(`${words.trimEnd()} (${MORE_MEMORY})`, { cause: error })
      : error,
  );
}

async function orFailed<T>(name: string, said: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    throw failed(name, said, error);
  }
}

async function* chunksOf(
  name: string,
  said: string,
  { result, header, types, hasEnd }: Answer,
  converter: Converter,
): AsyncGenerator<Iterable<QueryRow>, void, undefined> {
  const readers = valueReaders(types, converter);
  let ended = !hasEnd;
  let number = 0;
  const orThrow = <T>(read: () => T): T => {
    try {
      return read();
    } catch (error) {
      throw failed(name, said, error);
    }
  };
  /** One by one: two thousand rows may be of any size. Of the chunk nothing is held after its last row. */
  const rowsOf = function* (held: { chunk: Chunk | undefined }): Generator<QueryRow, void, undefined> {
    const { rowCount, ends, vectors } = orThrow(() => ({
      rowCount: held.chunk?.rowCount ?? 0,
      ends: hasEnd && held.chunk ? [held.chunk.getColumnVector(header.length)] : [],
      vectors: readers.flatMap((reader, at) => (held.chunk ? [[held.chunk.getColumnVector(at), reader] as const] : [])),
    }));
    held.chunk = undefined;
    for (let row = 0; row < rowCount; row += 1) {
      if (orThrow(() => ends[0]?.getItem(row)) === true) ended = true;
      else {
        number += 1;
        yield {
          *values(columns, most) {
            const wanted =
              columns.length === vectors.length ? vectors : vectors.filter((_, at) => columns.includes(at));
            try {
              return yield* valuesOfRow(wanted, row, most);
            } catch (error) {
              throw failed(name, said, error);
            }
          },
        };
      }
    }
    ends.length = 0;
    vectors.length = 0;
  };
  const next = (): Promise<{ chunk: Chunk | undefined }> =>
    orFailed(name, said, async () => {
      const chunk = await result.fetchChunk();
      return { chunk: chunk && chunk.rowCount > 0 ? chunk : undefined };
    });
  for (let held = await next(); held.chunk; held = await next()) yield rowsOf(held);
  if (!ended) {
    throw new JobFileError(
      name,
      `the query broke off after row ${number}, and DuckDB does not say why: a database may have gone away, a value could not be read, or its memory did not do (\`set memory_limit = '1GB'\` before the query gives it more); rows that were finished are intact`,
    );
  }
}

interface Answer {
  readonly result: Result;
  /** Names of the query's columns. */
  readonly header: readonly string[];
  readonly types: readonly DuckDbType[];
  /** True where a row stands after those of the query, with true in a column more. */
  readonly hasEnd: boolean;
}

/**
 * A stream of DuckDB's ends at an error as if there were no more rows: its C interface returns nothing in both cases,
 * and the package does not ask further. So a row of ours comes last.
 * @throws DuckDB's errors
 */
async function answerOf(connection: Connection, sql: string): Promise<Answer> {
  const { before, query } = await lastStatement(connection, sql);
  const statements = before === '' ? undefined : await connection.extractStatements(before);
  for (let at = 0; at < (statements?.count ?? 0); at += 1) {
    const statement = await statements?.prepare(at);
    try {
      await statement?.run();
    } finally {
      // As long as there is one, files are not closed.
      statement?.destroySync();
    }
  }
  // On a line of its own, as the query may end with a comment.
  const width = await columnsOf(connection, `from (${query}\n)`);
  // What cannot be asked within another query (`call`, `insert … returning`) is made as a whole, and then its errors
  // are told.
  const result = await (width === undefined
    ? connection.run(query)
    : connection.stream(`select *, false from (${query}\n) union all select ${'null, '.repeat(width)}true`));
  const [header, types] = [result.deduplicatedColumnNames(), result.columnTypes()];
  return {
    result,
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
    // After a semicolon that counts, no parenthesis can close.
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
