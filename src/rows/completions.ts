import { found } from '../arguments/found.js';
import { RowError } from '../errors/RowError.js';
import { UsageError } from '../errors/UsageError.js';
import { readable } from './readableRow.js';

/** Labels or completions that a row may have. */
export const MOST_COMPLETIONS = 1024;

/** A text, or token ids, used as they are. */
export type Completion = string | readonly number[];

/**
 * What a row is to be scored with. @param name what errors call it
 * @throws RowError
 */
export function checkedCompletions(name: 'labels' | 'completions', given: unknown): readonly Completion[] {
  const wrong = (what: string, expected: string): RowError =>
    new RowError('invalid-parameter', `${name}: found ${what}, expected ${expected}`);
  return readable(() => {
    if (given === undefined || given === null)
      throw wrong('none', 'an array of texts, in the row or for the whole run');
    if (!Array.isArray(given)) throw wrong(found(given), 'an array of texts');
    if (given.length < 1 || given.length > MOST_COMPLETIONS)
      throw wrong(`${given.length} texts`, `1 to ${MOST_COMPLETIONS}`);
    const seen = new Set<unknown>();
    return Array.from(given as unknown[], (each, at) => {
      const isIds = name === 'completions' && Array.isArray(each);
      if (!isIds && (typeof each !== 'string' || each === ''))
        throw new RowError(
          'invalid-parameter',
          `${name}[${at}]: found ${found(each)}, expected a text that is not empty`,
        );
      if (name === 'labels' && seen.has(each))
        throw new RowError(
          'invalid-parameter',
          `${name}[${at}]: found ${found(each)} a second time, expected texts that differ`,
        );
      seen.add(each);
      return each as Completion;
    });
  });
}

/** Does what may find a fault with what a whole run is told. @throws UsageError instead of RowError */
export function forTheRun<T>(read: () => T): T {
  try {
    return read();
  } catch (error) {
    throw error instanceof RowError ? new UsageError(error.message) : error;
  }
}
