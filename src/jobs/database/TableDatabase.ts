import type { FlatKind } from '../formats/Table.js';
import type { TableName } from './TableName.js';

/** A column that a table has. */
export interface FoundColumn {
  readonly name: string;
  /** As the database calls it. */
  readonly type: string;
  /** True where a row has to say what is in the column. */
  readonly needed: boolean;
}

export interface FoundTable {
  readonly columns: readonly FoundColumn[];
  /** The columns of each of its keys. */
  readonly keys: readonly (readonly string[])[];
}

/** A column to be written. */
export interface WrittenColumn {
  readonly name: string;
  /** As the database calls it. */
  readonly type: string;
}

/** A value for JSON: whole numbers beyond 2^53 are text. */
export type Cell = string | number | boolean | null | readonly number[] | Readonly<Record<string, number>>;

export interface Upsert {
  readonly table: TableName;
  readonly columns: readonly WrittenColumn[];
  readonly keys: readonly string[];
  readonly rows: readonly (readonly Cell[])[];
}

/** `away`: it may be there again by itself; `value`: a value does not fit; `other`: nothing of that. */
export type DatabaseFailure = 'away' | 'value' | 'other';

/** A database with a table for results: how to ask it, what its types are called, and what its errors mean. */
export interface TableDatabase {
  /** Without credentials. */
  readonly name: string;
  /** Texts that stand in no message. */
  readonly secrets: readonly (string | undefined)[];
  /** True where columns that differ in capitals alone are one. */
  readonly foldsNames: boolean;
  /** @throws UsageError for what no column can be called */
  checkName(name: string): void;
  /** @param length of vectors, where it is known */
  typeOf(kind: FlatKind, length?: number): string;
  /** Tells whether a column of this type takes such values as a whole. */
  takes(type: string, kind: FlatKind): boolean;
  /** Undefined where there is no such table. */
  describe(table: TableName): Promise<FoundTable | undefined>;
  /**
   * Statements, and rows by their key in place of those that are there: all of it, or nothing.
   * @param statements that make or change the table
   */
  write(statements: readonly string[], upsert: Upsert | undefined): Promise<void>;
  /** Changes the type of a column; undefined where columns take anything. */
  widen(table: TableName, column: WrittenColumn): string | undefined;
  /** Rows of a query, with values for `parameter(1)`, … */
  query(sql: string, values: readonly (string | number)[]): Promise<readonly (readonly unknown[])[]>;
  parameter(number: number): string;
  failureOf(error: unknown): DatabaseFailure;
  /** Lets others at it, until it is asked again. */
  idle(): Promise<void>;
  close(): Promise<void>;
}
