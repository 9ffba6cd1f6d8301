import { createRequire } from 'node:module';
import pg from 'pg';
import { type DatabaseServer, postgresFolder, postgresServer } from '../../support/databaseServers.js';

type Rows = readonly (readonly unknown[])[];

/** A database that tests write to, asked by its own client. */
export interface OpenDatabase extends AsyncDisposable {
  /** As an output names it. */
  readonly database: string;
  readonly server?: DatabaseServer;
  ask(sql: string): Promise<Rows>;
}

export interface DatabaseKind {
  readonly name: 'Postgres' | 'DuckDB' | 'SQLite';
  /** Why it is not there. */
  readonly missing: string | undefined;
  /** @param path of a file in a folder of the test's */
  open(path: (name: string) => string): Promise<OpenDatabase>;
}

const bin = postgresFolder();

export const DATABASES: readonly DatabaseKind[] = [
  {
    name: 'Postgres',
    missing: bin === undefined ? 'no server is installed' : undefined,
    open: async () => {
      const server = await postgresServer(bin ?? '');
      const database = `postgres://spillway:not-to-be-seen@127.0.0.1:${server.port}/postgres`;
      return {
        database,
        server,
        ask: async (sql) => {
          const client = new pg.Client(database);
          await client.connect();
          try {
            return (await client.query<unknown[]>({ text: sql, rowMode: 'array' })).rows;
          } finally {
            await client.end();
          }
        },
        [Symbol.asyncDispose]: () => server[Symbol.asyncDispose](),
      };
    },
  },
  {
    name: 'DuckDB',
    missing: installed('@duckdb/node-api') ? undefined : '@duckdb/node-api is not installed',
    open: async (path) => {
      const { DuckDBInstance } = await import('@duckdb/node-api');
      const database = path('out.duckdb');
      return {
        database,
        ask: async (sql) => {
          const instance = await DuckDBInstance.create(database);
          const connection = await instance.connect();
          try {
            return await (await connection.run(sql)).getRowsJson();
          } finally {
            connection.closeSync();
            instance.closeSync();
          }
        },
        [Symbol.asyncDispose]: () => Promise.resolve(),
      };
    },
  },
  {
    name: 'SQLite',
    missing: hasSqlite() ? undefined : `Node ${process.versions.node} has no node:sqlite`,
    open: async (path) => {
      const name = 'node:sqlite';
      const { DatabaseSync } = (await import(name)) as {
        DatabaseSync: new (file: string) => {
          prepare(sql: string): { all(): Record<string, unknown>[] };
          close(): void;
        };
      };
      const database = path('out.sqlite');
      return {
        database,
        ask: (sql) => {
          const file = new DatabaseSync(database);
          try {
            return Promise.resolve(
              file
                .prepare(sql)
                .all()
                .map((row) => Object.values(row)),
            );
          } finally {
            file.close();
          }
        },
        [Symbol.asyncDispose]: () => Promise.resolve(),
      };
    },
  },
];

function installed(name: string): boolean {
  try {
    createRequire(import.meta.url).resolve(name);
    return true;
  } catch {
    return false;
  }
}

function hasSqlite(): boolean {
  const [major = 0, minor = 0] = process.versions.node.split('.').map(Number);
  return major > 22 || (major === 22 && minor >= 13);
}
