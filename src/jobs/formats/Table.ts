import type { Column } from './parquet/schema.js';

/**
 * What a column of a table holds: text also where values are of several kinds, as JSON writes them; `count` is a whole
 * number of 32 bits, `vector` a list of float32, `vector16` of float16, `vector8` of int8, `bytes` of uint8, `moment` a
 * date with its time, in milliseconds, `map` numbers by name.
 */
export type ColumnKind = 'text' | 'integer' | 'number' | 'boolean' | 'count' | VectorKind | 'moment' | 'map';

/** Lists of numbers, by what these are. */
export type VectorKind = 'vector' | 'vector16' | 'vector8' | 'bytes';

export function isVector(kind: ColumnKind): kind is VectorKind {
  return kind === 'vector' || kind === 'vector16' || kind === 'vector8' || kind === 'bytes';
}

/** Adds a row to what is known of its columns. Values that are absent say nothing. */
export function addKinds(kinds: Map<string, ColumnKind>, row: object): void {
  for (const [name, value] of Object.entries(row)) {
    if (value === null || value === undefined) continue;
    const [before, now] = [kinds.get(name), kindOf(value)];
    if (before !== now) kinds.set(name, before === undefined ? now : both(before, now));
  }
}

export function kindsOf(rows: readonly (object | undefined)[]): ReadonlyMap<string, ColumnKind> {
  const kinds = new Map<string, ColumnKind>();
  for (const row of rows) if (row !== undefined) addKinds(kinds, row);
  return kinds;
}

function kindOf(value: unknown): ColumnKind {
  if (typeof value === 'boolean') return 'boolean';
  if (isMoment(value)) return 'moment';
  if (typeof value !== 'number') return 'text';
  return Number.isSafeInteger(value) ? 'integer' : 'number';
}

/** An invalid date is none. */
export function isMoment(value: unknown): value is Date {
  return value instanceof Date && !Number.isNaN(value.getTime());
}

function both(a: ColumnKind, b: ColumnKind): ColumnKind {
  const numbers: readonly ColumnKind[] = ['integer', 'number'];
  return numbers.includes(a) && numbers.includes(b) ? 'number' : 'text';
}

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
