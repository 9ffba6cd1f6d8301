import { UsageError } from '../../errors/UsageError.js';
import type { FlatKind } from '../formats/Table.js';
import type { DatabasePlace } from './DatabaseOutput.js';
import type { Cell, DatabaseFailure, FoundTable, TableDatabase, Upsert } from './TableDatabase.js';
import { checkColumnName, quoted, quotedTable, type TableName } from './TableName.js';

/** Node's own, from 22.13 on. */
const MODULE = 'node:sqlite';
/** Another process holds the file: nothing else can be done here until then, and it is tried again later. */
const BUSY_MILLISECONDS = 200;

interface Statement {
  run(...values: readonly unknown[]): unknown;
  all(...values: readonly unknown[]): readonly Readonly<Record<string, unknown>>[];
}
interface Database {
  exec(sql: string): void;
  prepare(sql: string): Statement;
  close(): void;
}
interface Sqlite {
  readonly DatabaseSync: new (path: string) => Database;
}

const TYPES: Readonly<Record<FlatKind, string>> = {
  text: 'TEXT',
  integer: 'INTEGER',
  number: 'REAL',
  boolean: 'INTEGER',
  count: 'INTEGER',
  vector: 'TEXT',
  vector16: 'TEXT',
  vector8: 'TEXT',
  bytes: 'TEXT',
  moment: 'TEXT',
  map: 'TEXT',
};
/** By SQLite's rules of affinity, none of which refuses a value unless the table is strict. */
const NUMBERS = /^$|INT|REAL|FLOA|DOUB|NUM|DEC|BOOL|ANY/i;
const TEXTS = /^$|CHAR|CLOB|TEXT|JSON|ANY/i;
/** Codes of results: a constraint, a type, and a value that is too large. */
const VALUES: readonly number[] = [18, 19, 20];
const BUSY = 5;

/** @throws UsageError where this Node has no SQLite of its own */
export async function sqliteTable({ address, name }: DatabasePlace): Promise<TableDatabase> {
  let module: Sqlite;
  try {
    module = (await import(MODULE)) as Sqlite;
  } catch (error) {
    throw new UsageError(
      `output: found the file of SQLite ${name} on Node ${process.versions.node}, which cannot write it, expected Node 22.13 or later; or give a file of DuckDB (.duckdb)`,
      { cause: error },
    );
  }
  return new SqliteTable(() => new module.DatabaseSync(address), name);
}

class SqliteTable implements TableDatabase {
  readonly secrets = [];
  readonly foldsNames = true;
  #database: Database | undefined;

  constructor(
    private readonly open: () => Database,
    readonly name: string,
  ) {}

  checkName(name: string): void {
    checkColumnName(name);
  }

  typeOf(kind: FlatKind): string {
    return TYPES[kind];
  }

  takes(type: string, kind: FlatKind): boolean {
    return (TYPES[kind] === 'TEXT' ? TEXTS : NUMBERS).test(type);
  }

  async describe({ schema = 'main', table }: TableName): Promise<FoundTable | undefined> {
    const columns = await this.query(
      'select name, type, "notnull" and dflt_value is null, pk from pragma_table_xinfo(?1, ?2)',
      [table, schema],
    );
    if (columns.length === 0) return undefined;
    const indexes = await this.query('select name from pragma_index_list(?1, ?2) where "unique" and not partial', [
      table,
      schema,
    ]);
    const keys: string[][] = [columns.filter(([, , , pk]) => Number(pk) > 0).map(([name]) => String(name))];
    for (const [index] of indexes)
      keys.push(
        (await this.query('select name from pragma_index_info(?1, ?2)', [String(index), schema])).map(([name]) =>
          String(name),
        ),
      );
    return {
      columns: columns.map(([name, type, needed]) => ({
        name: String(name),
        type: String(type),
        needed: Number(needed) === 1,
      })),
      keys,
    };
  }

  write(statements: readonly string[], upsert: Upsert | undefined): Promise<void> {
    return promised(() => {
      const database = this.#opened();
      database.exec('begin immediate');
      try {
        for (const statement of statements) database.exec(statement);
        if (upsert) {
          const insert = database.prepare(upsertSql(upsert));
          for (const row of upsert.rows) insert.run(...row.map((value, at) => stored(value, upsert.columns[at]?.type)));
        }
        database.exec('commit');
      } catch (error) {
        try {
          database.exec('rollback');
        } catch {
          // A full disk ends the transaction by itself.
        }
        throw error;
      }
    });
  }

  /** Its columns take values of any type. */
  widen(): undefined {
    return undefined;
  }

  query(sql: string, values: readonly (string | number)[]): Promise<readonly (readonly unknown[])[]> {
    return promised(() =>
      this.#opened()
        .prepare(sql)
        .all(...values)
        .map((row) => Object.values(row)),
    );
  }

  parameter(number: number): string {
    return `?${number}`;
  }

  failureOf(error: unknown): DatabaseFailure {
    // The low byte of what is called an extended code.
    const code = Number((error as { readonly errcode?: unknown }).errcode) & 0xff;
    if (code === BUSY) return 'away';
    return VALUES.includes(code) ? 'value' : 'other';
  }

  idle(): Promise<void> {
    return Promise.resolve();
  }

  close(): Promise<void> {
    return promised(() => {
      this.#database?.close();
      this.#database = undefined;
    });
  }

  #opened(): Database {
    if (this.#database === undefined) {
      const database = this.open();
      database.exec(`pragma busy_timeout = ${BUSY_MILLISECONDS}`);
      this.#database = database;
    }
    return this.#database;
  }
}

function promised<T>(work: () => T): Promise<T> {
  return new Promise((resolve) => resolve(work()));
}

function stored(value: Cell, type = ''): unknown {
  if (typeof value === 'boolean') return value ? 1 : 0;
  if (value !== null && typeof value === 'object') return JSON.stringify(value);
  // Whole numbers of 64 bits came as text; a number without an integer's type is a REAL.
  if (typeof value === 'number' && Number.isSafeInteger(value) && /INT/i.test(type)) return BigInt(value);
  return value;
}

function upsertSql({ table, columns, keys }: Upsert): string {
  const names = columns.map(({ name }) => quoted(name)).join(', ');
  const others = columns.filter(({ name }) => !keys.includes(name)).map(({ name }) => quoted(name));
  return `insert into ${quotedTable(table)} (${names}) values (${columns.map((_, at) => `?${at + 1}`).join(', ')})
    on conflict (${keys.map(quoted).join(', ')}) do update set ${others.map((name) => `${name} = excluded.${name}`).join(', ')}`;
}
