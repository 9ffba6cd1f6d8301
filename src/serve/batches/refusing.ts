import type { RowGenerator } from '../../jobs/JobOptions.js';
import type { RowInput, RowResult } from '../../Row.js';
import { failedResult } from '../../rows/failedResult.js';

/**
 * Answers the rest of a batch that has ended: an error each, so that the output of such a one says of each request what
 * became of it, too.
 */
export function refusing(code: 'cancelled' | 'expired', resultIdentity: object | undefined): RowGenerator {
  const message =
    code === 'cancelled'
      ? 'This request was not executed, as its batch was cancelled.'
      : 'This request could not be executed before the completion window expired.';
  const refuse = async function* (rows: AsyncIterable<RowInput>): AsyncGenerator<RowResult, void, undefined> {
    let at = 0;
    for await (const row of rows) {
      const { id = at + 1, index = at } = row;
      yield failedResult({ id, index }, 'error' in row ? row.error : { code, message }, row.carry);
      at += 1;
    }
  };
  return {
    ...(resultIdentity && { resultIdentity }),
    generate: refuse,
    embed: refuse,
  };
}
