import type { Table } from '../formats/Table.js';

const TABLES = new WeakMap<object, Table>();

/** Notes what rows that come once have in common, for who writes what they carry. */
export function noteTable(rows: object, { columns, dialect }: Table): void {
  TABLES.set(rows, { columns, ...(dialect && { dialect }) });
}

/**
 * Gives what was noted of rows, once the first one has been read: nothing for rows that somebody has changed on their
 * way.
 */
export function tableOfRows(rows: object): Table | undefined {
  return TABLES.get(rows);
}

const READ = new WeakSet<object>();

/** Notes rows that a reader of ours has made: their columns have been read. */
export function noteRead<Rows extends object>(rows: Rows): Rows {
  READ.add(rows);
  return rows;
}

export function isRead(rows: unknown): boolean {
  return typeof rows === 'object' && rows !== null && READ.has(rows);
}

const DATABASES = new WeakMap<object, string>();

/** Notes which file of a database rows are read from. */
export function noteDatabase(rows: object, path: string): void {
  DATABASES.set(rows, path);
}

export function databaseOfRows(rows: object): string | undefined {
  return DATABASES.get(rows);
}
