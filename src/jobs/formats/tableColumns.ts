import { namesOf } from './carriedRecord.js';
import { cell } from './columnText.js';
import { isObject } from '../../arguments/isObject.js';
import { isMoment, isVector, itemKindOf, kindsOf, type ColumnKind } from './Table.js';
import { resultColumns } from './resultColumns.js';
import type { FinishedRow, WriteOptions } from './RowFormat.js';
import { checkColumns } from './tableRow.js';

/** A column of a file whose columns have types, with one value a row. */
export interface TableColumn {
  readonly name: string;
  readonly kind: ColumnKind;
  /** Undefined or null for none. */
  readonly value: (row: FinishedRow) => unknown;
}

/** The names of what rows carry: the columns of the input, or what the first rows have. */
export function carriedNames(first: readonly FinishedRow[], options: WriteOptions): readonly string[] {
  return options.table()?.columns ?? [...new Set(first.flatMap(({ carry }) => namesOf(carry)))];
}

/**
 * Columns of what rows carry.
 * @param first rows that say what is in columns of which nothing else is known
 */
export function carriedColumns(
  names: readonly string[],
  first: readonly FinishedRow[],
  options: WriteOptions,
): readonly TableColumn[] {
  const kinds = options.table()?.kinds ?? kindsOf(first.map(({ carry }) => carry));
  const known = new Set(names);
  return names.map((name, at) => ({
    name,
    kind: kinds.get(name) ?? 'text',
    value: ({ carry = {} }) => {
      if (at === 0) checkColumns(options.name, known, carry);
      return carry[name];
    },
  }));
}

/** Columns of results, beside those of what rows carry. @throws UsageError for two columns of one name */
export function answerColumns(carried: readonly string[], options: WriteOptions): readonly TableColumn[] {
  return resultColumns(carried, options).map(({ name, type, value }) => ({
    name,
    kind: type,
    value: ({ result }) => value(result),
  }));
}

type Stored = string | number | bigint | boolean;

/**
 * A value as its column holds it; null for none. Integers and moments are bigints. @throws Error for a value of another
 * kind
 */
export function storedValue(
  value: unknown,
  kind: ColumnKind,
): Stored | readonly (Stored | null)[] | ReadonlyMap<string, number> | null {
  if (value === undefined || value === null) return null;
  if (kind === 'text') return cell(value) ?? null;
  if (kind === 'boolean' && typeof value === 'boolean') return value;
  if (kind === 'number' && typeof value === 'number') return value;
  if (kind === 'count' && Number.isSafeInteger(value)) return value as number;
  if (kind === 'integer' && Number.isSafeInteger(value)) return BigInt(value as number);
  if (kind === 'integer' && typeof value === 'bigint' && BigInt.asIntN(64, value) === value) return value;
  if (kind === 'moment' && isMoment(value)) return BigInt(value.getTime());
  if (kind === 'map' && isObject(value)) return new Map(Object.entries(value as Readonly<Record<string, number>>));
  if (isVector(kind) && Array.isArray(value)) return value as readonly number[];
  const items = itemKindOf(kind);
  if (items !== undefined && Array.isArray(value))
    return value.map((item) => {
      // A number is no text here: which it was could not be told.
      if (items === 'text' && item !== null && typeof item !== 'string') throw unlike(value);
      return storedValue(item, items) as Stored | null;
    });
  throw unlike(value);
}

function unlike(value: unknown): Error {
  return new Error(`found ${cell(value) ?? ''}, expected values as in the rows before`);
}
