import { found } from '../arguments/found.js';
import type { RowFailure } from '../Row.js';

/** The error of a row whose id an earlier row has. */
export function duplicateId(id: string | number): RowFailure {
  return { code: 'duplicate-id', message: `id: found ${found(id)}, which an earlier row has` };
}
