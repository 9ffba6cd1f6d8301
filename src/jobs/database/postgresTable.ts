import type * as Postgres from 'pg';
import { loadPeers } from '../loadPeers.js';
import type { FlatKind } from '../formats/Table.js';
import { checkPostgresName, type DatabasePlace } from './DatabaseOutput.js';
import { jsonOf } from './jsonOf.js';
import type { DatabaseFailure, FoundTable, TableDatabase, Upsert, WrittenColumn } from './TableDatabase.js';
import { quoted, quotedTable, type TableName } from './TableName.js';

const PACKAGE = 'pg';
const CONNECT_SECONDS = 10;
/** A batch of rows takes far less; a server that hangs is away. */
const ANSWER_SECONDS = 120;
const DISK_FULL = '53100';
/** Classes of SQLSTATE that are about the connection, or the server's state. */
const AWAY = /^(08|40|53|55P03|57)/;
/** Classes about a value, or what its column may hold. */
const VALUE = /^(22|23)/;

const TYPES: Readonly<Record<FlatKind, string>> = {
  text: 'text',
  integer: 'bigint',
  number: 'double precision',
  boolean: 'boolean',
  count: 'integer',
  vector: 'real[]',
  vector16: 'real[]',
  vector8: 'smallint[]',
  bytes: 'smallint[]',
  moment: 'timestamp with time zone',
  map: 'jsonb',
};
const TAKES: Readonly<Record<FlatKind, RegExp>> = {
  text: /^(text|character|citext|bpchar|"?name)/,
  integer: /^(bigint|integer|smallint|numeric|double|real)/,
  number: /^(double|real|numeric)/,
  boolean: /^boolean/,
  count: /^(bigint|integer|smallint|numeric|double|real)/,
  vector: /^((real|double precision|numeric(\(.*\))?)\[\]|(\w+\.)?(vector|halfvec)(\(\d+\))?$)/,
  vector16: /^((real|double precision|numeric(\(.*\))?)\[\]|(\w+\.)?(vector|halfvec)(\(\d+\))?$)/,
  vector8: /^(smallint|integer|bigint|real|double precision|numeric(\(.*\))?)\[\]/,
  bytes: /^(smallint|integer|bigint|real|double precision|numeric(\(.*\))?)\[\]/,
  moment: /^timestamp/,
  map: /^jsonb?$/,
};

const COLUMNS = `
  select a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull and not a.atthasdef and a.attidentity = '', c.relkind
  from pg_class c left join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
  where c.oid = to_regclass($1) order by a.attnum`;
const KEYS = `
  select (select array_agg(a.attname::text) from pg_attribute a where a.attrelid = i.indrelid and a.attnum = any(i.indkey))
  from pg_index i where i.indrelid = to_regclass($1) and i.indisunique and i.indpred is null and i.indexprs is null`;

/** Credentials and certificates are those of the URL, or of the environment, by libpq's names (`PGPASSWORD`, …). */
export async function postgresTable({ address, name }: DatabasePlace): Promise<TableDatabase> {
  const [{ Client }] = (await loadPeers('a table of Postgres', PACKAGE)) as readonly [typeof Postgres];
  return new PostgresTable(
    () =>
      new Client({
        connectionString: address,
        application_name: 'spillway',
        connectionTimeoutMillis: CONNECT_SECONDS * 1000,
        query_timeout: ANSWER_SECONDS * 1000,
        keepAlive: true,
      }),
    name,
    [decodeURIComponent(new URL(address).password), new URL(address).password, process.env['PGPASSWORD']],
  );
}

class PostgresTable implements TableDatabase {
  readonly foldsNames = false;
  #client: Postgres.Client | undefined;

  constructor(
    private readonly connect: () => Postgres.Client,
    readonly name: string,
    readonly secrets: readonly (string | undefined)[],
  ) {}

  checkName(name: string): void {
    checkPostgresName('output', name);
  }

  typeOf(kind: FlatKind): string {
    return TYPES[kind];
  }

  takes(type: string, kind: FlatKind): boolean {
    return TAKES[kind].test(type);
  }

  async describe(table: TableName): Promise<FoundTable | undefined> {
    const columns = await this.query(COLUMNS, [quotedTable(table)]);
    if (columns.length === 0) return undefined;
    const keys = await this.query(KEYS, [quotedTable(table)]);
    return {
      columns: columns
        .filter(([name]) => name !== null)
        .map(([name, type, needed]) => ({ name: String(name), type: String(type), needed: needed === true })),
      keys: keys.map(([names]) => names as readonly string[]),
    };
  }

  async write(statements: readonly string[], upsert: Upsert | undefined): Promise<void> {
    await this.#connected(async (client) => {
      try {
        await client.query('begin');
        for (const statement of statements) await client.query(statement);
        if (upsert) await client.query(upsertSql(upsert), [upsertJson(upsert)]);
        await client.query('commit');
      } catch (error) {
        await client.query('rollback');
        throw error;
      }
    });
  }

  widen(table: TableName, { name, type }: WrittenColumn): string {
    return `alter table ${quotedTable(table)} alter column ${quoted(name)} type ${type} using ${quoted(name)}::${type}`;
  }

  query(sql: string, values: readonly (string | number)[]): Promise<readonly (readonly unknown[])[]> {
    return this.#connected(async (client) => {
      const { rows } = await client.query<unknown[]>({ text: sql, values: [...values], rowMode: 'array' });
      return rows;
    });
  }

  parameter(number: number): string {
    return `$${number}`;
  }

  failureOf(error: unknown): DatabaseFailure {
    const { code } = error as { readonly code?: unknown };
    if (typeof code !== 'string') return error instanceof Error && !(error instanceof TypeError) ? 'away' : 'other';
    if (code === DISK_FULL) return 'other';
    // Codes of the system, such as ECONNREFUSED, are no SQLSTATE.
    if (/^E[A-Z]/.test(code) || AWAY.test(code)) return 'away';
    return VALUE.test(code) ? 'value' : 'other';
  }

  idle(): Promise<void> {
    return Promise.resolve();
  }

  async close(): Promise<void> {
    const client = this.#client;
    this.#client = undefined;
    await client?.end();
  }

  /** A connection of which a statement failed otherwise than by its words is another one next time. */
  async #connected<T>(work: (client: Postgres.Client) => Promise<T>): Promise<T> {
    let client = this.#client;
    if (client === undefined) {
      client = this.connect();
      // Without a listener an error of a connection ends the process. Its query fails with it.
      client.on('error', () => undefined);
      await client.connect();
      this.#client = client;
    }
    try {
      return await work(client);
    } catch (error) {
      if (this.failureOf(error) === 'away') {
        this.#client = undefined;
        // Not for one that does not answer.
        void client.end().catch(() => undefined);
      }
      throw error;
    }
  }
}

/** Rows go as one text of JSON, which Postgres reads by the types of the columns: no values stand in a statement. */
function upsertSql({ table, columns, keys }: Upsert): string {
  const names = columns.map(({ name }) => quoted(name)).join(', ');
  const places = columns.map(({ type }, at) => `c${at} ${type}`).join(', ');
  const values = columns.map((_, at) => `c${at}`).join(', ');
  const others = columns.filter(({ name }) => !keys.includes(name)).map(({ name }) => quoted(name));
  return `insert into ${quotedTable(table)} (${names}) select ${values} from json_to_recordset($1::json) as r (${places})
    on conflict (${keys.map(quoted).join(', ')}) do update set ${others.map((name) => `${name} = excluded.${name}`).join(', ')}`;
}

function upsertJson({ rows }: Upsert): string {
  return jsonOf(rows.map((row) => Object.fromEntries(row.map((value, at) => [`c${at}`, value]))));
}
