import { found } from '../arguments/found.js';
import { isObject } from '../arguments/isObject.js';
import { RowError } from '../errors/RowError.js';
import { UsageError } from '../errors/UsageError.js';
import { readable } from './readableRow.js';

/** Labels or completions that a row may have. */
export const MOST_COMPLETIONS = 1024;

/** A text, or token ids, used as they are. */
export type Completion = string | readonly number[];

/**
 * Checks the completions to score a row with. @param name what errors call it
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

/** Labels, checked: the texts that are to be scored, and what results call them. @throws RowError */
export function checkedLabels(given: unknown): {
  readonly names: readonly string[];
  readonly texts: readonly string[];
} {
  return readable(() => {
    const list: unknown = Array.isArray(given)
      ? Array.from(given as unknown[], (each) => (isObject(each) ? each['text'] : each))
      : given;
    const texts = checkedCompletions('labels', list) as readonly string[];
    const seen = new Set<string>();
    const names = texts.map((text, at) => {
      const label = (given as readonly unknown[])[at];
      const name = isObject(label) ? label['name'] : text;
      if (typeof name !== 'string' || name === '')
        throw new RowError(
          'invalid-parameter',
          `labels[${at}].name: found ${found(name)}, expected a text that is not empty`,
        );
      if (seen.has(name))
        throw new RowError(
          'invalid-parameter',
          `labels[${at}]: found the name ${found(name)} a second time, expected names that differ`,
        );
      seen.add(name);
      return name;
    });
    return { names, texts };
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
