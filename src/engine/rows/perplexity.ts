import { checkMembers, type Check } from '../../arguments/checkMembers.js';
import { checkSignal } from '../../arguments/checks.js';
import { found } from '../../arguments/found.js';
import { whole } from '../../arguments/memberChecks.js';
import { UsageError } from '../../errors/UsageError.js';
import { checkedTokens, type RowLimits } from './promptTokens.js';
import type { WindowScore } from './ScoredRow.js';

/** How a text is scored. */
export interface PerplexityOptions {
  /** Tokens a window, at least 2. */
  readonly window: number;
  /** Tokens of a window that are given and not scored, 1 to window - 1. Default 1. */
  readonly promptTokens?: number;
  /** Ends it: InterruptedError. */
  readonly signal?: AbortSignal;
}

const CHECKS: Readonly<Record<keyof PerplexityOptions, Check>> = {
  window: whole(2),
  promptTokens: whole(1),
  signal: checkSignal,
};

/**
 * @throws UsageError for what is no text, for options out of range, and where nothing would be scored; RowError for a
 * token that the model does not have
 */
export function checkPerplexity(
  tokens: unknown,
  options: unknown,
  { contextTokens, vocabularySize }: RowLimits,
): PerplexityOptions & { readonly promptTokens: number } {
  if (!Array.isArray(tokens)) throw new UsageError(`tokens: found ${found(tokens)}, expected an array of token ids`);
  checkMembers('options', options, CHECKS);
  const { window, promptTokens = 1, ...more } = options as Partial<PerplexityOptions>;
  if (window === undefined || Math.min(window, tokens.length) > contextTokens) {
    throw new UsageError(
      `window: found ${window ?? 'nothing'}, expected a whole number from 2 to ${contextTokens}, the model's context`,
    );
  }
  if (promptTokens >= window)
    throw new UsageError(
      `promptTokens: found ${promptTokens}, expected a whole number from 1 to ${window - 1}, one less than the window`,
    );
  if (tokens.length <= promptTokens) {
    throw new UsageError(
      `tokens: found ${tokens.length}, expected at least ${promptTokens + 1}: ${promptTokens === 1 ? 'the first is' : `the first ${promptTokens} are`} not scored`,
    );
  }
  checkedTokens(tokens, vocabularySize);
  return { window, promptTokens, ...more };
}

/** The likelihood of a text. */
export interface Perplexity {
  /** Tokens that were scored. */
  readonly tokens: number;
  readonly negativeLogLikelihood: number;
  /** exp(negativeLogLikelihood / tokens) */
  readonly perplexity: number;
}

/** Summed in order of the text, so that the figure does not depend on how its windows were batched. */
export function perplexityOf(scores: readonly WindowScore[]): Perplexity {
  let [tokens, negativeLogLikelihood] = [0, 0];
  for (const score of [...scores].sort((a, b) => a.firstToken - b.firstToken)) {
    tokens += score.tokens;
    negativeLogLikelihood += score.negativeLogLikelihood;
  }
  return { tokens, negativeLogLikelihood, perplexity: Math.exp(negativeLogLikelihood / tokens) };
}
