import type { AnyResult } from '../Results.js';

/** The rows of a result: one for each part where it has them, each with the number of its part. */
export function rowsOfResult<Result extends Pick<AnyResult, 'id' | 'index' | 'chunks'>>(
  result: Result,
): readonly Result[] {
  const { chunks, ...whole } = result;
  if (!Array.isArray(chunks)) return [result];
  return chunks.map((part: object, chunk) => ({ ...whole, ...part, chunk }) as unknown as Result);
}
