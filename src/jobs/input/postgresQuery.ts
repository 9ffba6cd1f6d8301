import type * as Postgres from 'pg';
import type { Work } from '../../collections/drained.js';
import { postgresUrl } from '../database/postgresUrl.js';
import { loadPeers } from '../loadPeers.js';
import { failureOf, type OpenQuery, orFailure, type QueryRow } from './OpenQuery.js';
import { type PostgresType, type Reader, readerOf } from './postgresValues.js';
import { tallied } from './ValueTally.js';

const PACKAGE = 'pg';
const CONNECT_SECONDS = 10;
/** Rows that are fetched at once: at first, and at most. */
const FIRST_ROWS = 16;
const MOST_ROWS = 2000;
/** Units of text that they may be together, as those before them were. */
const FETCHED_UNITS = 2 ** 20;
/** A value counts for so many units beside its text: rows may have many columns with little in them. */
const VALUE_UNITS = 8;

/** The text of a moment, an interval or bytes does not depend on who asks. A job takes as long as it does. */
const SETTINGS = `
  set local datestyle = 'ISO, YMD'; set local intervalstyle = 'postgres'; set local timezone = 'UTC';
  set local bytea_output = 'hex'; set local extra_float_digits = 1; set local idle_in_transaction_session_timeout = 0`;
const ARRAYS = `
  select a.oid::int8::text, a.typelem::int8::text, e.typdelim from pg_type a join pg_type e on e.oid = a.typelem
  where a.oid = any($1::oid[]) and a.typelem <> 0 and a.typlen = -1 and a.typcategory = 'A'`;

/** An option unknown to the package's types. */
const PREPARED: object = { queryMode: 'extended' };

/**
 * A query of Postgres, by a cursor in a transaction that reads: its rows are those of the moment at which it began,
 * whoever writes meanwhile. Credentials and certificates are those of the URL, or of the environment, by libpq's names.
 * @throws UsageError, JobFileError
 */
export async function postgresQuery(sql: string, database: string): Promise<OpenQuery> {
  const { url, name } = postgresUrl('database', database);
  const [{ Client }] = (await loadPeers('SQL of Postgres', PACKAGE)) as readonly [typeof Postgres];
  const secrets = [url.password, process.env['PGPASSWORD']].flatMap((secret) =>
    secret === undefined || secret === '' ? [] : [`password=${quoted(secret)}`],
  );
  const said = [sql, database, ...secrets].join('\n');
  const failing = <T>(work: () => Promise<T>): Promise<T> => orFailure(name, said, work);
  const client = new Client({
    connectionString: database,
    application_name: 'spillway',
    connectionTimeoutMillis: CONNECT_SECONDS * 1000,
    keepAlive: true,
  });
  // Without a listener an error of a connection ends the process. Its query fails with it.
  client.on('error', () => undefined);
  const close = async (): Promise<void> => {
    // Nobody waits for a server that does not answer.
    void client.end().catch(() => undefined);
    return Promise.resolve();
  };
  try {
    await failing(() => client.connect());
    const cursor = new Cursor(client, failing, (error) => failureOf(name, said, error));
    const header = await cursor.open(sql);
    return { name, header, chunks: () => cursor.chunks(), [Symbol.asyncDispose]: close };
  } catch (error) {
    await close();
    throw error;
  }
}

class Cursor {
  private readers: readonly Reader[] = [];

  constructor(
    private readonly client: Postgres.Client,
    private readonly failing: <T>(work: () => Promise<T>) => Promise<T>,
    private readonly failure: (error: unknown) => Error,
  ) {}

  /** @returns the names of the columns */
  async open(sql: string): Promise<readonly string[]> {
    const { client } = this;
    return this.failing(async () => {
      await client.query('begin isolation level repeatable read, read only');
      await client.query(SETTINGS);
      // As one that is prepared: of several statements none is taken for the query.
      const declared = { text: `declare spillway_rows no scroll cursor for ${sql.replace(/;\s*$/, '')}`, ...PREPARED };
      await client.query(declared);
      const { fields } = await this.fetch(0);
      const types = fields.map(({ dataTypeID }) => dataTypeID);
      const { rows } = await client.query<[string, string, string]>({
        text: ARRAYS,
        values: [types],
        rowMode: 'array',
      });
      const arrays = new Map(
        rows.map(([type, item, delimiter]): [number, PostgresType] => [
          Number(type),
          { item: Number(item), delimiter },
        ]),
      );
      this.readers = types.map((type) => readerOf(type, arrays.get(type)));
      return distinct(fields.map(({ name }) => name));
    });
  }

  async *chunks(): AsyncGenerator<Iterable<QueryRow>, void, undefined> {
    for (let count = FIRST_ROWS; ;) {
      const { rows } = await this.failing(() => this.fetch(count));
      if (rows.length === 0) return;
      const units = rows.reduce(
        (sum, row) => sum + row.reduce((own, text) => own + VALUE_UNITS + (text?.length ?? 0), 0),
        0,
      );
      yield rows.map((row) => ({ values: (columns, most) => this.valuesOf(row, columns, most) }));
      const fitting = Math.floor((FETCHED_UNITS * rows.length) / Math.max(1, units));
      count = Math.max(1, Math.min(fitting, 2 * count, MOST_ROWS));
    }
  }

  private *valuesOf(
    row: readonly (string | null)[],
    columns: readonly number[],
    most: number,
  ): Work<readonly unknown[] | undefined> {
    const { readers } = this;
    const work = tallied(most, function* (tally) {
      const made: unknown[] = [];
      for (const at of columns) {
        const [text = null, reader] = [row[at], readers[at]];
        if (text === null || !reader) made.push(tally.member(text));
        else made.push('whole' in reader ? tally.member(reader.whole(text)) : yield* reader.parts(text, tally));
        if (tally.due) yield;
      }
      return made;
    });
    try {
      return yield* work;
    } catch (error) {
      throw this.failure(error);
    }
  }

  /** As texts, as Postgres writes them. */
  private fetch(count: number): Promise<Postgres.QueryArrayResult<(string | null)[]>> {
    return this.client.query<(string | null)[]>({
      text: `fetch ${count} from spillway_rows`,
      rowMode: 'array',
      types: { getTypeParser: () => (text: string) => text },
    });
  }
}

/** Names of which several are alike get numbers, as DuckDB's do. */
function distinct(names: readonly string[]): readonly string[] {
  const taken = new Set<string>();
  return names.map((name) => {
    let own = name;
    for (let number = 1; taken.has(own); number += 1) own = `${name}_${number}`;
    taken.add(own);
    return own;
  });
}

/** A text as statements have them, so that it is known for one. */
function quoted(text: string): string {
  return `'${text.replaceAll("'", "''")}'`;
}
