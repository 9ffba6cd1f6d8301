import { RowError } from '../../errors/RowError.js';
import type { DeviceRow } from '../grid/Device.js';
import { GREEDY } from '../execution/greedy.js';
import type { RunRow } from '../execution/RunRow.js';
import type { HeadOutput } from '../grid/Task.js';
import type { RowId } from '../grid/Square.js';
import { notFinite } from './notFinite.js';

/** Sum over the scored tokens of a window. */
export interface WindowScore {
  /** Where in the text the window begins. */
  readonly firstToken: number;
  readonly tokens: number;
  readonly negativeLogLikelihood: number;
}

/**
 * A window of text whose own tokens are scored, all but those of its prompt; nothing is sampled. What is scored counts
 * as generated, token by token: where attention is sparse, it is for those tokens.
 */
export class ScoredRow implements RunRow<WindowScore> {
  readonly sequence: DeviceRow;
  readonly newTokens = 0;
  private seen = 0;
  private sum = 0;

  /**
   * @param tokens more than the prompt's
   * @param promptTokens tokens that are given, at least one
   */
  constructor(
    tokens: readonly number[],
    private readonly firstToken: number,
    private readonly promptTokens = 1,
  ) {
    this.sequence = { tokens, capacityTokens: tokens.length, promptTokens, ...GREEDY };
  }

  accept(head: HeadOutput, row: RowId): WindowScore | undefined {
    for (const logprob of head.scored.get(row) ?? []) {
      if (++this.seen < this.promptTokens) continue; // there is none for the first token
      if (!Number.isFinite(logprob)) throw this.notScored(logprob);
      this.sum -= logprob;
    }
    const { firstToken, promptTokens, sum: negativeLogLikelihood } = this;
    const { length } = this.sequence.tokens;
    return this.seen >= length - 1 ? { firstToken, tokens: length - promptTokens, negativeLogLikelihood } : undefined;
  }

  /** Makes the error of the token that was seen last. */
  private notScored(logprob: number): RowError {
    const position = this.firstToken + this.seen;
    if (Number.isNaN(logprob)) return new RowError('numeric', notFinite(position - 1));
    return new RowError(
      'numeric',
      `the model gives the token at position ${position} no probability at all: the perplexity is infinite`,
    );
  }
}

/** The windows of a text, one after another; a last one of which nothing would be scored is left out. */
export async function* scoredWindows(
  tokens: readonly number[],
  window: number,
  promptTokens: number,
): AsyncGenerator<ScoredRow, void, undefined> {
  for (let first = 0; first + promptTokens < tokens.length; first += window)
    yield new ScoredRow(tokens.slice(first, first + window), first, promptTokens);
}
