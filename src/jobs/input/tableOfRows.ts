import type { Table } from '../formats/Table.js';

const TABLES = new WeakMap<object, Table>();

/** Notes what rows that come once have in common, for who writes what they carry. */
export function noteTable(rows: object, { columns, dialect }: Table): void {
  TABLES.set(rows, { columns, ...(dialect && { dialect }) });
}

/** What was noted of rows, once the first one has been read: none of those that somebody has changed on their way. */
export function tableOfRows(rows: object): Table | undefined {
  return TABLES.get(rows);
}
