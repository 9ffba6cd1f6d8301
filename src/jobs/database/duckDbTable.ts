import { loadPeers } from '../loadPeers.js';
import { isVector, type FlatKind } from '../formats/Table.js';
import type { DatabasePlace } from './DatabaseOutput.js';
import { jsonOf } from './jsonOf.js';
import type { DatabaseFailure, FoundTable, TableDatabase, Upsert, WrittenColumn } from './TableDatabase.js';
import { checkColumnName, quoted, quotedTable, type TableName } from './TableName.js';

const PACKAGE = '@duckdb/node-api';

interface Result {
  getRowsJson(): Promise<readonly (readonly unknown[])[]>;
}
interface Statement {
  bindVarchar(at: number, value: string): void;
  run(): Promise<Result>;
  destroySync(): void;
}
interface Connection {
  prepare(sql: string): Promise<Statement>;
  run(sql: string): Promise<Result>;
  closeSync(): void;
}
interface Instance {
  connect(): Promise<Connection>;
  closeSync(): void;
}
interface DuckDb {
  readonly DuckDBInstance: { create(path: string): Promise<Instance> };
}

const TYPES: Readonly<Record<FlatKind, string>> = {
  text: 'VARCHAR',
  integer: 'BIGINT',
  number: 'DOUBLE',
  boolean: 'BOOLEAN',
  count: 'INTEGER',
  vector: 'FLOAT[]',
  vector16: 'FLOAT[]',
  vector8: 'TINYINT[]',
  bytes: 'UTINYINT[]',
  moment: 'TIMESTAMP WITH TIME ZONE',
  map: 'MAP(VARCHAR, DOUBLE)',
};
const TAKES: Readonly<Record<FlatKind, RegExp>> = {
  text: /^(VARCHAR|JSON)$/,
  integer: /^U?(HUGE|BIG|SMALL|TINY)?INT(EGER)?$|^(DECIMAL|DOUBLE|FLOAT)/,
  number: /^(DOUBLE|FLOAT|DECIMAL\(.*\))$/,
  boolean: /^BOOLEAN$/,
  count: /^U?(HUGE|BIG|SMALL|TINY)?INT(EGER)?$|^(DECIMAL|DOUBLE|FLOAT)/,
  vector: /^(FLOAT|DOUBLE)\[\d*\]$/,
  vector16: /^(FLOAT|DOUBLE)\[\d*\]$/,
  vector8: /^(TINYINT|SMALLINT|INTEGER|BIGINT|FLOAT|DOUBLE)\[\d*\]$/,
  bytes: /^(UTINYINT|U?SMALLINT|U?INTEGER|U?BIGINT|FLOAT|DOUBLE)\[\d*\]$/,
  moment: /^TIMESTAMP/,
  map: /^(MAP\(VARCHAR, (DOUBLE|FLOAT)\)|JSON)$/,
};
/** Errors that tell of values that do not fit. */
const VALUE = /^Error: (Conversion|Constraint|Out of Range|Invalid Input|Invalid type) Error/;

/** Another process has the file open. */
const LOCKED = /^Error: IO Error: Could not set lock on file/;

export async function duckDbTable({ address, name }: DatabasePlace): Promise<TableDatabase> {
  const [{ DuckDBInstance }] = (await loadPeers('a table of DuckDB', PACKAGE)) as readonly [DuckDb];
  return new DuckDbTable(() => DuckDBInstance.create(address), name);
}

class DuckDbTable implements TableDatabase {
  readonly secrets = [];
  readonly foldsNames = true;
  #instance: Instance | undefined;
  #connection: Connection | undefined;

  constructor(
    private readonly open: () => Promise<Instance>,
    readonly name: string,
  ) {}

  checkName(name: string): void {
    checkColumnName(name);
  }

  typeOf(kind: FlatKind, length?: number): string {
    return isVector(kind) && length !== undefined ? TYPES[kind].replace('[]', `[${length}]`) : TYPES[kind];
  }

  takes(type: string, kind: FlatKind): boolean {
    return TAKES[kind].test(type);
  }

  async describe({ schema, table }: TableName): Promise<FoundTable | undefined> {
    const where = `where database_name = current_database() and schema_name = ${schema === undefined ? 'current_schema()' : '$2'} and table_name = $1`;
    const values = schema === undefined ? [table] : [table, schema];
    const columns = await this.query(
      `select column_name, data_type, not is_nullable and column_default is null from duckdb_columns() ${where} order by column_index`,
      values,
    );
    if (columns.length === 0) return undefined;
    const keys = await this.query(
      `select constraint_column_names from duckdb_constraints() ${where} and constraint_type in ('PRIMARY KEY', 'UNIQUE')`,
      values,
    );
    return {
      columns: columns.map(([name, type, needed]) => ({
        name: String(name),
        type: String(type),
        needed: needed === true,
      })),
      keys: keys.map(([names]) => names as readonly string[]),
    };
  }

  async write(statements: readonly string[], upsert: Upsert | undefined): Promise<void> {
    const connection = await this.#opened();
    await connection.run('begin');
    try {
      for (const statement of statements) await connection.run(statement);
      // A statement that changes a table is seen by others of its transaction only where they are planned after it.
      if (upsert) await bound(connection, upsertSql(upsert), [jsonOf(upsert.rows)]);
      await connection.run('commit');
    } catch (error) {
      // One that failed to be committed is gone already.
      await connection.run('rollback').catch(() => undefined);
      throw error;
    }
  }

  widen(table: TableName, { name, type }: WrittenColumn): string {
    return `alter table ${quotedTable(table)} alter column ${quoted(name)} set data type ${type}`;
  }

  async query(sql: string, values: readonly (string | number)[]): Promise<readonly (readonly unknown[])[]> {
    const result = await bound(await this.#opened(), sql, values.map(String));
    return result.getRowsJson();
  }

  parameter(number: number): string {
    return `$${number}`;
  }

  failureOf(error: unknown): DatabaseFailure {
    const words = String(error);
    if (LOCKED.test(words)) return 'away';
    return VALUE.test(words) ? 'value' : 'other';
  }

  /** A file is its process's alone as long as it is open: others may read it between two batches. */
  idle(): Promise<void> {
    return this.close();
  }

  close(): Promise<void> {
    this.#connection?.closeSync();
    this.#instance?.closeSync();
    this.#connection = undefined;
    this.#instance = undefined;
    return Promise.resolve();
  }

  async #opened(): Promise<Connection> {
    this.#instance ??= await this.open();
    this.#connection ??= await this.#instance.connect();
    return this.#connection;
  }
}

async function bound(connection: Connection, sql: string, values: readonly string[]): Promise<Result> {
  const statement = await connection.prepare(sql);
  try {
    for (const [at, value] of values.entries()) statement.bindVarchar(at + 1, value);
    return await statement.run();
  } finally {
    statement.destroySync();
  }
}

/** Rows go as one text of JSON: no values stand in a statement. What has parts is read as JSON, all else as text. */
function upsertSql({ table, columns, keys }: Upsert): string {
  const names = columns.map(({ name }) => quoted(name)).join(', ');
  const values = columns
    .map(({ type }, at) =>
      /[[(]/.test(type) && !type.startsWith('DECIMAL') ? `(r->'$[${at}]')::${type}` : `(r->>'$[${at}]')::${type}`,
    )
    .join(', ');
  const others = columns.filter(({ name }) => !keys.includes(name)).map(({ name }) => quoted(name));
  return `insert into ${quotedTable(table)} (${names}) select ${values} from (select unnest(from_json($1, '["JSON"]')) r)
    on conflict (${keys.map(quoted).join(', ')}) do update set ${others.map((name) => `${name} = excluded.${name}`).join(', ')}`;
}
