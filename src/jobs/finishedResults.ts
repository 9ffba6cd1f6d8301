import { Turns } from '../collections/Turns.js';
import type { AnyResult } from '../Results.js';

/**
 * The results up to the one at which their source fails. The event loop has its turn between results that are at hand
 * already: rows that end together may each take milliseconds to be written, by their log-probabilities.
 * @param onFailure told what the source threw
 */
export async function* finishedResults(
  results: AsyncIterable<AnyResult>,
  onFailure: (error: unknown) => void,
): AsyncGenerator<AnyResult, void, undefined> {
  const turns = new Turns();
  try {
    for await (const result of results) {
      if (turns.due) await turns.give();
      yield result;
    }
  } catch (error) {
    onFailure(error);
  }
}
