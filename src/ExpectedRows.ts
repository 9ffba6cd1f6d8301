/** The rows that are to come, as far as they are known: what an engine is planned for. */
export interface ExpectedRows {
  /** Tokens of a prompt, on average. */
  readonly promptTokens: number;
  /** New tokens of a row, on average. Where rows may end early: as many as they end with, if that is known. */
  readonly newTokens: number;
  /**
   * Tokens of a long row, prompt and answer: the cache is provided for rows up to this length. Default: of an average
   * one.
   */
  readonly longRowTokens?: number;
  /**
   * Tokens of the longest row, prompt and answer, where all have been looked at: of the ways to use the memory one is
   * taken that holds it, if any does. Default: at least 4096, or the model's context if that is less.
   */
  readonly longestRowTokens?: number;
  /** The tokens of a prompt with which others begin, too, on average: see `sharePrefixes`. Default 0. */
  readonly sharedPrefixTokens?: number;
  /** How many there are; 0 is none. Default: not known, many. */
  readonly rows?: number;
}

/** Tokens of a long row, whole. */
export function longRowTokens({
  promptTokens,
  newTokens,
  longRowTokens: tokens = promptTokens + newTokens,
}: ExpectedRows): number {
  return Math.max(1, Math.ceil(tokens));
}
