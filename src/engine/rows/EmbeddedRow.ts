import { RowError } from '../../errors/RowError.js';
import type { DeviceRow, Pooling } from '../grid/Device.js';
import { GREEDY } from '../execution/greedy.js';
import type { RunRow } from '../execution/RunRow.js';
import type { HeadOutput } from '../grid/Task.js';
import type { RowId } from '../grid/Square.js';

/** The outcome of a row that is embedded. */
export interface EmbeddedRowEnd<Result> {
  /** @param hidden [hiddenSize] */
  embedded(hidden: Float32Array): Result;
  failed(error: RowError): Result;
}

export interface EmbeddedRowOptions {
  /** Its keys and values may be others', too. Default: where the last token alone is pooled. */
  readonly shares?: boolean;
  /** The place in a pair where the second text begins (`DeviceRow.secondText`). */
  readonly secondText?: number | undefined;
}

/**
 * A row whose pooled hidden state is wanted. Where that takes all of its tokens, or the first, it computes all of them
 * itself: what is shared are keys and values, not hidden states.
 */
export class EmbeddedRow<Result> implements RunRow<Result> {
  readonly sequence: DeviceRow;
  readonly newTokens = 1;
  readonly sharedTokens: number;

  constructor(
    tokens: readonly number[],
    pooling: Pooling,
    private readonly end: EmbeddedRowEnd<Result>,
    { shares = pooling === 'last', secondText }: EmbeddedRowOptions = {},
  ) {
    this.sequence = {
      ...GREEDY,
      tokens,
      capacityTokens: tokens.length + 1,
      pooling,
      ...(secondText !== undefined && { secondText }),
    };
    this.sharedTokens = shares ? tokens.length : 0;
  }

  accept(head: HeadOutput, row: RowId): Result | undefined {
    const hidden = head.sampled.get(row)?.embedding;
    if (!hidden) return undefined;
    if (allFinite(hidden)) return this.end.embedded(hidden);
    return this.end.failed(
      new RowError(
        'numeric',
        "the hidden states after the row's tokens are not finite: the model's weights hold such numbers, or it overflows (precision float32 has room for larger ones)",
      ),
    );
  }
}

function allFinite(values: Float32Array): boolean {
  // By index: an iterator makes an object of each number.
  for (let at = 0; at < values.length; at++) if (!Number.isFinite(values[at])) return false;
  return true;
}
