import type { FinishedRow } from './RowFormat.js';

/**
 * The key of what is kept with the columns of a record of separated values: an object puts names such as `2019` first,
 * and has no place for how values were written.
 */
const RECORD = Symbol('record');

export interface CarriedRecord {
  /** In the order of the file. */
  readonly columns: readonly string[];
  readonly delimiter: string;
  /** As it stands in the file, without its end; undefined where it is not as its columns are. */
  readonly raw?: string;
}

type Carry = FinishedRow['carry'] & { readonly [RECORD]?: CarriedRecord };

/** Keeps a record with its columns, for who writes them in a table again; nobody else sees it. */
export function keepRecord(carry: object, record: CarriedRecord): void {
  Object.defineProperty(carry, RECORD, { value: record });
}

export function recordOf(carry: FinishedRow['carry']): CarriedRecord | undefined {
  return (carry as Carry | undefined)?.[RECORD];
}

/** The names of what a row carries, in their order. */
export function namesOf(carry: FinishedRow['carry']): readonly string[] {
  return recordOf(carry)?.columns ?? Object.keys(carry ?? {});
}
