import type { ColumnKind } from './columnKinds.js';
import type { Column } from './parquet/schema.js';

/** How a file of separated values is written. */
export interface CsvDialect {
  readonly delimiter: string;
  readonly lineEnd: string;
  readonly byteOrderMark: boolean;
}

/** What the rows of a table have in common. */
export interface Table {
  readonly columns: readonly string[];
  /** Of a file of separated values. */
  readonly dialect?: CsvDialect;
  /** Of Parquet: columns with their types. */
  readonly typed?: readonly Column[];
  /** Of other rows: what was found in them. */
  readonly kinds?: ReadonlyMap<string, ColumnKind>;
}
