import { closeSync, openSync, readSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { checkMembers, type Check } from '../../arguments/checkMembers.js';
import { checkFunction, checkText } from '../../arguments/checks.js';
import { found } from '../../arguments/found.js';
import { isObject } from '../../arguments/isObject.js';
import { UsageError } from '../../errors/UsageError.js';
import type { RowFormat } from '../formats/RowFormat.js';
import { AWAY_SECONDS } from '../work/persistently.js';
import { isPostgres, postgresUrl } from './postgresUrl.js';
import { checkColumnName, parseTableName, type TableName } from './TableName.js';

/** A table of a database, where results of a job go. */
export interface DatabaseOutput {
  /** `TABLE` or `SCHEMA.TABLE`, as it is called there; a name with a dot stands in double quotes. */
  readonly table: string;
  /** `postgres://…`, or a file of DuckDB's or SQLite's, which is made where there is none. */
  readonly database: string;
  /**
   * The name after which the files are called that say what is done, and are what is resumed: `JOURNAL.rows.jsonl`,
   * `JOURNAL.job.json` and `JOURNAL.lock`. Default: beside a file `FILE.TABLE`; else in the working folder
   * `TABLE.table`.
   */
  readonly journal?: string;
  /** How long a database that is away is waited for, in the run and at its end. Default 300. */
  readonly waitSeconds?: number;
  /** Called when the database goes away, and when it is back. */
  readonly onNotice?: (words: string) => void;
}

/** Longest that is waited for a database. */
export const DATABASE_WAIT = { least: 0, most: 86_400, fallback: AWAY_SECONDS } as const;

const CHECKS: Readonly<Record<keyof DatabaseOutput, Check>> = {
  table: (name, value) => checkText(name, value, 'a table'),
  database: (name, value) => checkText(name, value, 'a URL or a file'),
  journal: (name, value) => checkText(name, value, "a file's path"),
  waitSeconds: (name, value) => {
    if (typeof value === 'number' && value >= DATABASE_WAIT.least && value <= DATABASE_WAIT.most) return;
    throw new UsageError(
      `${name}: found ${found(value)}, expected seconds from ${DATABASE_WAIT.least} to ${DATABASE_WAIT.most}`,
    );
  },
  onNotice: checkFunction,
};

export type DatabaseKind = 'postgres' | 'duckdb' | 'sqlite';

/** Where results go, read from what was given. */
export interface DatabasePlace {
  readonly kind: DatabaseKind;
  readonly table: TableName;
  /** The URL, or the path of the file. */
  readonly address: string;
  /** Without credentials. */
  readonly name: string;
  /** The path after which the journal, the record and the lock of the job are called. */
  readonly path: string;
}

export function isDatabaseOutput(output: unknown): output is DatabaseOutput {
  return isObject(output) && !('write' in output) && ('table' in output || 'database' in output);
}

/** @throws UsageError, which repeats no URL */
export function checkDatabaseOutput(output: DatabaseOutput): void {
  checkMembers('output', output, CHECKS);
  databasePlace(output);
}

/** Postgres cuts longer names, so that two might be one. */
const POSTGRES_NAME_BYTES = 63;

/** @throws UsageError, which repeats no URL */
export function databasePlace({ table: text, database, journal }: DatabaseOutput): DatabasePlace {
  const table = parseTableName(text);
  const file = encodeURIComponent(table.schema === undefined ? table.table : `${table.schema}.${table.table}`);
  if (isPostgres(database)) {
    for (const part of [table.schema, table.table]) if (part !== undefined) checkPostgresName('output', part);
    const { name } = postgresUrl('output', database);
    return { kind: 'postgres', table, address: database, name, path: journal ?? `${file}.table` };
  }
  if (/^[a-z][a-z0-9+.-]+:\/\//i.test(database))
    throw new UsageError(
      'output: found a database of another kind, expected postgres://HOST/DATABASE, or a file of DuckDB or SQLite',
    );
  if (database === '' || database.includes('\0') || database === ':memory:')
    throw new UsageError(
      `output: found ${found(database)} as a database, expected postgres://HOST/DATABASE, or a file of DuckDB or SQLite`,
    );
  return {
    kind: kindOfFile(database),
    table,
    address: database,
    name: database,
    path: journal ?? join(dirname(database), `${basename(database)}.${file}`),
  };
}

/** @throws UsageError for a name that Postgres would cut */
export function checkPostgresName(what: string, name: string): void {
  checkColumnName(name);
  const bytes = Buffer.byteLength(name);
  if (bytes > POSTGRES_NAME_BYTES)
    throw new UsageError(
      `${what}: found the name ${found(name)} of ${bytes} bytes, expected at most ${POSTGRES_NAME_BYTES}, which is where Postgres cuts`,
    );
}

const DUCKDB = ['duckdb', 'ddb'];
const SQLITE = ['sqlite', 'sqlite3', 'db3', 's3db'];

/** By its first bytes; of one that is not there, or is empty, by its name. */
function kindOfFile(path: string): 'duckdb' | 'sqlite' {
  const start = startOf(path);
  if (start.startsWith('SQLite format 3\0')) return 'sqlite';
  if (start.slice(8, 12) === 'DUCK') return 'duckdb';
  if (start !== '')
    throw new UsageError(`output: found ${path}, which is neither DuckDB's nor SQLite's, expected a database`);
  const ending = /\.([^./\\]+)$/.exec(path)?.[1]?.toLowerCase() ?? '';
  if (DUCKDB.includes(ending)) return 'duckdb';
  if (SQLITE.includes(ending)) return 'sqlite';
  throw new UsageError(
    `output: found ${path}, which is not there, expected a name that says whose it is to be: one with ${[...DUCKDB, ...SQLITE].map((each) => `.${each}`).join(', ')}`,
  );
}

function startOf(path: string): string {
  const start = Buffer.alloc(16);
  try {
    const file = openSync(path, 'r');
    try {
      return start.toString('latin1', 0, readSync(file, start));
    } finally {
      closeSync(file);
    }
  } catch {
    // Whoever opens it hears why.
    return '';
  }
}

/** The format of results that go to a database: a table, by its columns. It has no bytes of its own. */
export const databaseTable: RowFormat = {
  name: 'a table of a database',
  extensions: [],
  carries: true,
  async *rows() {
    await Promise.reject(new UsageError('inputFormat: found a table of a database, expected sql:QUERY, or readSql'));
  },
  async *encode() {
    // Rows go there as they come: `TableFeed`.
  },
};
