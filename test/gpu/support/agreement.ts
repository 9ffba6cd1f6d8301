import type { RowResult } from '../../../src/index.js';

/** How far results went together. */
export interface Agreement {
  /** Tokens that both computed from the same ones before them, and those of all rows. */
  readonly compared: number;
  readonly all: number;
  /** The largest difference of a token's log-probability. */
  readonly worst: number;
  /** Rows in which two tokens were about as likely, and the other one was taken. */
  readonly ties: number;
}

/**
 * Compares greedy answers of two devices that round otherwise. Where the two likeliest tokens are closer than
 * `tolerance`, either may come, and the rest of the row is another text.
 *
 * @param expected with log-probabilities of the two likeliest tokens
 * @throws Error naming row and token where a token came that was not nearly the likeliest, or a log-probability is
 * further off
 */
export function agreement(expected: readonly RowResult[], found: readonly RowResult[], tolerance: number): Agreement {
  let [compared, all, worst, ties] = [0, 0, 0, 0];
  if (expected.length !== found.length) throw new Error(`${found.length} rows, expected ${expected.length}`);
  expected.forEach((row, index) => {
    const other = found[index];
    if (!other || other.id !== row.id || other.error || row.error)
      throw new Error(`row ${String(row.id)}: found ${JSON.stringify(other)}`);
    all += row.tokens.length;
    for (const [step, token] of row.tokens.entries()) {
      const [at, there] = [row.logprobs?.[step], other.logprobs?.[step]];
      if (!at || !there) throw new Error(`row ${String(row.id)}: no log-probability at token ${step}`);
      if (other.tokens[step] !== token) {
        const taken = at.top.find((each) => each.token === other.tokens[step]);
        if (!taken || at.logprob - taken.logprob > 2 * tolerance)
          throw new Error(
            `row ${String(row.id)}, token ${step}: found ${String(other.tokens[step])}, expected ${token}`,
          );
        ties++;
        return;
      }
      const difference = Math.abs(at.logprob - there.logprob);
      if (!(difference <= tolerance))
        throw new Error(
          `row ${String(row.id)}, token ${step}: log-probability ${there.logprob}, expected ${at.logprob}`,
        );
      worst = Math.max(worst, difference);
      compared++;
    }
    if (other.tokens.length !== row.tokens.length)
      throw new Error(`row ${String(row.id)}: ${other.tokens.length} tokens, expected ${row.tokens.length}`);
  });
  return { compared, all, worst, ties };
}
