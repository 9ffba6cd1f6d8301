import type { RowFailure, RowResult } from '../Row.js';
import { found } from '../arguments/found.js';

/** The result of a row that could not be done. */
export function failedResult(
  { id, index, sample, truncated }: Pick<RowResult, 'id' | 'index' | 'sample' | 'truncated'>,
  error: RowFailure,
  carry?: RowResult['carry'],
): RowResult {
  return {
    id,
    index,
    ...(sample !== undefined && { sample }),
    text: '',
    tokens: [],
    finishReason: 'error',
    usage: { promptTokens: 0, completionTokens: 0 },
    ...(truncated !== undefined && { truncated }),
    error,
    ...(carry && { carry }),
  };
}

/** The error of a row whose id an earlier row has. */
export function duplicateId(id: string | number): RowFailure {
  return { code: 'duplicate-id', message: `id: found ${found(id)}, which an earlier row has` };
}
