import type { WindowScore } from './ScoredRow.js';

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
