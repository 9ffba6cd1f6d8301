import type { EngineOptions } from '../EngineOptions.js';
import { longRowTokens, type ExpectedRows } from '../ExpectedRows.js';
import type { Tokenizer } from '../model/Tokenizer.js';

/** What the options say of the rows that are to come: all that is known of them, and how long a long one is. */
export async function rowsToCome({ expectedRows, rowTokens }: EngineOptions, tokenizer: Tokenizer): Promise<{ readonly expected: ExpectedRows | undefined; readonly rowTokens: number | undefined }> {
  const expected = typeof expectedRows === 'function' ? await expectedRows(tokenizer) : expectedRows;
  if (expected) return { expected, rowTokens: longRowTokens(expected) };
  return { expected, rowTokens: typeof rowTokens === 'function' ? await rowTokens(tokenizer) : rowTokens };
}
