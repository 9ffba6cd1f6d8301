import type { DeviceRow } from '../execution/Device.js';
import type { RunRow } from '../execution/RunRow.js';
import type { HeadOutput } from '../execution/Task.js';
import type { RowId } from '../schedules/Square.js';

/** Sum over the scored tokens of a window. */
export interface WindowScore {
  /** Where in the text the window begins. */
  readonly firstToken: number;
  readonly tokens: number;
  readonly negativeLogLikelihood: number;
}

/** A window of text whose own tokens are scored; nothing is sampled. */
export class ScoredRow implements RunRow<WindowScore> {
  readonly sequence: DeviceRow;
  readonly newTokens = 0;
  private scored = 0;
  private sum = 0;

  /** @param tokens at least two: the first is not scored */
  constructor(
    tokens: readonly number[],
    private readonly firstToken: number,
  ) {
    this.sequence = { tokens, capacityTokens: tokens.length, temperature: 0, topP: 1, topK: 0, minP: 0, repetitionPenalty: 1, seed: 0, logprobs: -1 };
  }

  accept(head: HeadOutput, row: RowId): WindowScore | undefined {
    for (const logprob of head.scored.get(row) ?? []) {
      this.sum -= logprob;
      this.scored++;
    }
    const { firstToken, scored: tokens, sum: negativeLogLikelihood } = this;
    return tokens >= this.sequence.tokens.length - 1 ? { firstToken, tokens, negativeLogLikelihood } : undefined;
  }
}
