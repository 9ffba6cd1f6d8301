import type { Work } from '../../collections/drained.js';
import { found } from '../../arguments/found.js';
import { RowError } from '../../errors/RowError.js';
import type { Tokenizer } from '../../model/Tokenizer.js';
import type { Completion } from '../../rows/completions.js';
import { ROW_LIMITS } from '../../model/files/limits.js';
import { tokenBytes } from '../../rows/heldBytes.js';
import { checkedIds, checkUnits, countedTokens, type PromptTokens, type RowLimits } from './promptTokens.js';

/** How texts become tokens that stand after a prompt. */
export interface CompletionRules {
  readonly tokenizer: Tokenizer;
  readonly limits: RowLimits;
  /** Text such as `<|im_end|>` in them is data. */
  readonly escapeSpecialTokens?: boolean | undefined;
  /** The end token is the last of each. */
  readonly end?: boolean | undefined;
}

/** Tokens of all completions of a row: what they take is the row's. */
const MOST_TOKENS = ROW_LIMITS.rowBytes / tokenBytes([0]);

/**
 * The tokens of each as it goes on after a prompt, by itself: what is appended to the prompt's. @throws RowError, also
 * for labels whose tokens are the same: no probability could tell them apart. Stops on the way: there may be many, or
 * long ones.
 */
export function* completionTokens(
  name: string,
  completions: readonly Completion[],
  { tokenizer, limits, escapeSpecialTokens, end = false }: CompletionRules,
): Work<readonly (readonly number[])[]> {
  const [last] = tokenizer.endTokens;
  if (end && last === undefined)
    throw new RowError(
      'invalid-parameter',
      `${name}: the model has no end token, expected one that can stand after them`,
    );
  let together = 0;
  const all: (readonly number[])[] = [];
  for (const [at, completion] of completions.entries()) {
    yield;
    const which = `${name}[${at}]`;
    if (typeof completion !== 'string' && completion.length > limits.contextTokens)
      throw tooLong(which, completion.length);
    if (typeof completion === 'string') checkUnits(completion.length, limits, `${which}: found`);
    const made = yield* tokensOf(completion);
    if (made.count > made.tokens.length) throw tooLong(which, made.count);
    const tokens = checkedIds(which, made.tokens, limits.vocabularySize);
    if (tokens.length === 0)
      throw new RowError(
        'invalid-parameter',
        typeof completion === 'string'
          ? `${which}: found ${found(completion)}, of which no token is left, expected a text of one at least`
          : `${which}: found an empty array, expected at least one token id`,
      );
    if (tokens.length > limits.contextTokens) throw tooLong(which, tokens.length);
    together += tokens.length;
    if (together > MOST_TOKENS)
      throw new RowError('limit', `${name}: found more than ${MOST_TOKENS} tokens together, expected at most so many`);
    all.push(end && last !== undefined ? [...tokens, last] : tokens);
  }
  if (name === 'labels') checkDiffer(completions, all);
  return all;

  function tooLong(which: string, tokens: number): RowError {
    return new RowError(
      'too-long',
      `${which}: found ${tokens} tokens, the model's context holds ${limits.contextTokens}`,
    );
  }

  function* tokensOf(completion: Completion): Work<PromptTokens> {
    if (typeof completion !== 'string') return { tokens: completion, count: completion.length };
    return yield* countedTokens(completion, tokenizer, limits.contextTokens, {
      specialTokens: false,
      parseSpecial: escapeSpecialTokens !== true,
      continues: true,
    });
  }
}

/** @throws RowError */
function checkDiffer(labels: readonly Completion[], tokens: readonly (readonly number[])[]): void {
  const seen = new Map<string, number>();
  tokens.forEach((ids, at) => {
    const key = ids.join();
    const before = seen.get(key);
    if (before !== undefined)
      throw new RowError(
        'invalid-parameter',
        `labels[${at}]: found ${found(labels[at])}, whose tokens are those of labels[${before}], ${found(labels[before])}: expected labels that differ in their tokens`,
      );
    seen.set(key, at);
  });
}
