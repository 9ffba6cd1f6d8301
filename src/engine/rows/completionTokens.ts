import { found } from '../../arguments/found.js';
import { RowError } from '../../errors/RowError.js';
import { UsageError } from '../../errors/UsageError.js';
import type { Tokenizer } from '../../model/Tokenizer.js';
import { checkedTokens, checkUnits, readable, type RowLimits } from './promptTokens.js';

/** Labels or completions that a row may have. */
export const MOST_COMPLETIONS = 1024;

/** How texts become tokens that stand behind a prompt. */
export interface CompletionRules {
  readonly tokenizer: Tokenizer;
  readonly limits: RowLimits;
  /** Text such as `<|im_end|>` in them is data. */
  readonly escapeSpecialTokens?: boolean | undefined;
  /** The end token is the last of each. */
  readonly end?: boolean | undefined;
}

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

/** The tokens of each by itself, without a begin token: what is appended to a prompt's. @throws RowError */
export function completionTokens(
  name: string,
  completions: readonly Completion[],
  { tokenizer, limits, escapeSpecialTokens, end = false }: CompletionRules,
): readonly (readonly number[])[] {
  const [last] = tokenizer.endTokens;
  if (end && last === undefined)
    throw new RowError(
      'invalid-parameter',
      `${name}: the model has no end token, expected one that can stand behind them`,
    );
  return completions.map((completion, at) => {
    const tokens =
      typeof completion === 'string' ? encoded(completion) : checkedTokens(completion, limits.vocabularySize);
    if (tokens.length === 0)
      throw new RowError(
        'invalid-parameter',
        `${name}[${at}]: found ${found(completion)}, of which no token is left, expected a text of one at least`,
      );
    if (tokens.length > limits.contextTokens)
      throw new RowError(
        'too-long',
        `${name}[${at}]: found ${tokens.length} tokens, the model's context holds ${limits.contextTokens}`,
      );
    return end && last !== undefined ? [...tokens, last] : tokens;
  });

  function encoded(text: string): readonly number[] {
    checkUnits(text.length, limits);
    const tokens = tokenizer.encode(text, { specialTokens: false, parseSpecial: escapeSpecialTokens !== true });
    return tokens.length === 0 ? tokens : checkedTokens(tokens, limits.vocabularySize);
  }
}

/** Does what may find a fault with what a whole run is told. @throws UsageError instead of RowError */
export function forTheRun<T>(read: () => T): T {
  try {
    return read();
  } catch (error) {
    throw error instanceof RowError ? new UsageError(error.message) : error;
  }
}
