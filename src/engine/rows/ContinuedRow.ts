import { RowError } from '../../errors/RowError.js';
import type { DeviceRow } from '../grid/Device.js';
import { GREEDY } from '../execution/greedy.js';
import type { Continuation, RunRow } from '../execution/RunRow.js';
import type { HeadOutput } from '../grid/Task.js';
import type { RowId } from '../grid/Square.js';
import { notFinite } from './notFinite.js';

/** Tokens after a prompt that has been computed, and how likely they are. */
export class ContinuedRow<Result> implements RunRow<Result> {
  readonly sequence: DeviceRow;
  readonly newTokens = 0;
  readonly sharedTokens: number;
  readonly countedTokens: number;
  private readonly found: number[] = [];

  /**
   * @param known tokens of the completion whose log-probabilities are known, at least one, and not all
   * @param onFound called with those of the others, or why there are none
   */
  constructor(
    prompt: readonly number[],
    private readonly completion: readonly number[],
    private readonly known: number,
    private readonly onFound: (found: readonly number[] | RowError) => Result | Continuation<Result>,
  ) {
    const tokens = [...prompt, ...completion];
    this.sequence = { ...GREEDY, tokens, capacityTokens: tokens.length, promptTokens: prompt.length };
    // The last of the known ones is computed: what others have computed has not been scored for this one.
    this.sharedTokens = prompt.length + known;
    this.countedTokens = prompt.length;
  }

  accept(head: HeadOutput, row: RowId, firstPosition: number): Result | Continuation<Result> | undefined {
    for (const logprob of head.scored.get(row) ?? []) this.found.push(logprob);
    // Nothing comes of its last token.
    if (firstPosition + this.found.length < this.sequence.tokens.length - 1) return undefined;
    // Where the prompt was not there any more, its tokens have been scored as well.
    const own = this.found.slice(this.known - this.completion.length);
    const odd = own.findIndex((logprob) => Number.isNaN(logprob));
    return this.onFound(odd < 0 ? own : new RowError('numeric', notFinite(this.countedTokens + this.known - 1 + odd)));
  }
}
