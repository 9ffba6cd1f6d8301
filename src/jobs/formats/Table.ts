import type { Column } from './parquet/schema.js';

/**
 * The kind of values that a column of a table holds: text also where values are of several kinds, as JSON writes them;
 * `count` is a whole number of 32 bits, `vector` a list of float32, `vector16` of float16, `vector8` of int8, `bytes`
 * of uint8, `moment` a date with its time, in milliseconds, `map` numbers by name, the others lists.
 */
export type ColumnKind = 'text' | 'integer' | 'number' | 'boolean' | 'count' | VectorKind | ListKind | 'moment' | 'map';

/** Lists of numbers, by what these are. */
export type VectorKind = 'vector' | 'vector16' | 'vector8' | 'bytes';

/** Lists, by what these are of; a `list` has never had anything in it. */
export type ListKind = 'list' | 'texts' | 'integers' | 'numbers' | 'booleans';

/** Kinds for tables that have no lists: lists are texts in them. */
export type FlatKind = Exclude<ColumnKind, ListKind>;

const LISTS: Readonly<Record<'text' | 'integer' | 'number' | 'boolean', ListKind>> = {
  text: 'texts',
  integer: 'integers',
  number: 'numbers',
  boolean: 'booleans',
};
const ITEMS = { list: 'text', texts: 'text', integers: 'integer', numbers: 'number', booleans: 'boolean' } as const;

/** Gives the kind of a list's items; undefined for what is no list. */
export function itemKindOf(kind: ColumnKind): (typeof ITEMS)[ListKind] | undefined {
  return Object.hasOwn(ITEMS, kind) ? ITEMS[kind as ListKind] : undefined;
}

export function flatKind(kind: ColumnKind): FlatKind {
  return itemKindOf(kind) === undefined ? (kind as FlatKind) : 'text';
}

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
  if (Array.isArray(value)) return listOf(value);
  if (typeof value !== 'number') return 'text';
  return Number.isSafeInteger(value) ? 'integer' : 'number';
}

/** Lists of texts, numbers or truth values; others are texts. */
function listOf(items: readonly unknown[]): ColumnKind {
  let list: ListKind = 'list';
  for (const item of items) {
    if (item === null) continue;
    const kind = typeof item === 'object' ? undefined : kindOf(item);
    if (kind !== 'boolean' && kind !== 'integer' && kind !== 'number' && typeof item !== 'string') return 'text';
    const together = both(list, LISTS[kind as keyof typeof LISTS]);
    if (together === 'text') return 'text';
    list = together as ListKind;
  }
  return list;
}

/** An invalid date is none. */
export function isMoment(value: unknown): value is Date {
  return value instanceof Date && !Number.isNaN(value.getTime());
}

function both(a: ColumnKind, b: ColumnKind): ColumnKind {
  if (a === b) return a;
  const [one, other] = [itemKindOf(a), itemKindOf(b)];
  if (one !== undefined && other !== undefined) {
    if (a === 'list') return b;
    if (b === 'list') return a;
    return isNumeric(one) && isNumeric(other) ? 'numbers' : 'text';
  }
  return isNumeric(a) && isNumeric(b) ? 'number' : 'text';
}

function isNumeric(kind: ColumnKind): boolean {
  return kind === 'integer' || kind === 'number';
}

/** How a file of separated values is written. */
export interface CsvDialect {
  readonly delimiter: string;
  readonly lineEnd: string;
  readonly byteOrderMark: boolean;
}

/** Facts that the rows of a table have in common. */
export interface Table {
  readonly columns: readonly string[];
  /** The dialect of a file of separated values. */
  readonly dialect?: CsvDialect;
  /** The columns of Parquet, with their types. */
  readonly typed?: readonly Column[];
  /** Column kinds that were found in other rows. */
  readonly kinds?: ReadonlyMap<string, ColumnKind>;
}
