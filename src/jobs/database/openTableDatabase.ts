import type { DatabaseKind, DatabasePlace } from './DatabaseOutput.js';
import { duckDbTable } from './duckDbTable.js';
import { postgresTable } from './postgresTable.js';
import { sqliteTable } from './sqliteTable.js';
import type { TableDatabase } from './TableDatabase.js';

const OPENERS: Readonly<Record<DatabaseKind, (place: DatabasePlace) => Promise<TableDatabase>>> = {
  postgres: postgresTable,
  duckdb: duckDbTable,
  sqlite: sqliteTable,
};

/** Nothing is asked of it yet. @throws UsageError where a package is not installed, or this Node lacks what it takes */
export function openTableDatabase(place: DatabasePlace): Promise<TableDatabase> {
  return OPENERS[place.kind](place);
}
