import type { AnyResult } from '../Results.js';
import type { RowInput } from '../Row.js';

/** The fields of a result that say which row it is of. */
export type RowIdentity = Pick<AnyResult, 'id' | 'index'>;

/**
 * Finds out who a row is, and whether an earlier one has its id. Ids that nobody gave are compared with none: a bad
 * line must not cost a good row its result.
 * @param number of the row in its input, from 0
 * @param ids of rows before it; an `IdSet`
 */
export function identified(
  row: RowInput,
  number: number,
  ids: { add(id: string | number): boolean },
): { readonly identity: RowIdentity; readonly duplicate: boolean } {
  const index = row.index ?? number;
  return {
    identity: { id: row.id ?? index + 1, index },
    duplicate: row.duplicate ?? (row.id !== undefined && !ids.add(row.id)),
  };
}
