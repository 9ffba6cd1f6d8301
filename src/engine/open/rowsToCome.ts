import { checkWhole } from '../../arguments/checks.js';
import type { EngineOptions } from '../../EngineOptions.js';
import { longRowTokens, type ExpectedRows } from '../../ExpectedRows.js';
import type { Tokenizer } from '../../model/Tokenizer.js';
import { checkExpectedRows, MOST_ROW_TOKENS } from './checkEngineOptions.js';

/**
 * What the options say of the rows that are to come: all that is known of them, and how long a long one is.
 * @throws UsageError for what the caller's functions find out, if it makes no sense
 */
export async function rowsToCome(
  { expectedRows, rowTokens }: EngineOptions,
  tokenizer: Tokenizer,
): Promise<{ readonly expected: ExpectedRows | undefined; readonly rowTokens: number | undefined }> {
  const expected = typeof expectedRows === 'function' ? await expectedRows(tokenizer) : expectedRows;
  if (expected !== undefined) {
    checkExpectedRows('expectedRows', expected);
    return { expected, rowTokens: Math.min(longRowTokens(expected), MOST_ROW_TOKENS) };
  }
  const usual = typeof rowTokens === 'function' ? await rowTokens(tokenizer) : rowTokens;
  if (usual !== undefined) checkWhole('rowTokens', usual, 1, MOST_ROW_TOKENS);
  return { expected, rowTokens: usual };
}
