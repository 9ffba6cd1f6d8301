import { ROW_LIMITS } from '../../model/files/limits.js';

/** Log-probabilities of a row that may have so many tokens, at most: those of each token, and its alternatives. */
export function mostLogprobs(maxNewTokens: number, alternatives: number | undefined): number {
  if (alternatives === undefined) return 0;
  const each = alternatives + 1;
  return Math.min(maxNewTokens * each, ROW_LIMITS.logprobs + each);
}

/** Says what is wrong with an answer whose log-probabilities are beyond the limit. */
export function tooManyLogprobs(alternatives: number, tokens: number): string {
  return (
    `logprobs: found ${alternatives} alternatives for each of more than ${tokens} tokens, ` +
    `expected at most ${ROW_LIMITS.logprobs} log-probabilities in a row: fewer of them, or fewer maxNewTokens`
  );
}
