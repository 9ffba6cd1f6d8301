/**
 * How many times as many rows a diagonal block holds in the memory of a zig-zag block, for s prompt tokens and n new
 * ones: nearly 2 where rows mostly generate, nearly 1 where they mostly read (FlexGen, appendix A.2: (2s + 2n) / (2s +
 * n), up to terms of 1/n).
 */
export function blockGain(promptTokens: number, newTokens: number): number {
  return (2 * promptTokens + 2 * newTokens) / (2 * promptTokens + newTokens);
}

/**
 * The most tokens of KV cache, in each layer, that a block of rows holds at once. In a zig-zag block all rows are at
 * their longest together. In a diagonal block as many rows as possible are of each age, so it holds the average of a
 * row's life all the time.
 *
 * @param rows a multiple of `newTokens` for the diagonal block, so that ages are spread evenly
 */
export function peakCacheTokens(
  schedule: 'zigzag' | 'diagonal',
  rows: number,
  promptTokens: number,
  newTokens: number,
): number {
  // A row's last token is sampled and never computed, so after its k-th square of n it holds s + k - 1 tokens.
  if (schedule === 'zigzag') return rows * (promptTokens + newTokens - 1);
  return rows * (promptTokens + (newTokens - 1) / 2);
}
