import { RowError } from '../../errors/RowError.js';
import { GREEDY } from '../execution/greedy.js';
import { Continuation, type RunRow } from '../execution/RunRow.js';
import type { DeviceRow, Pooling } from '../grid/Device.js';
import type { RowId } from '../grid/Square.js';
import type { HeadOutput, SampledToken } from '../grid/Task.js';

/** The finding that is looked for at an input's end. */
export interface Look {
  /** The values that a device is asked for of a sequence. */
  readonly asked: Pick<DeviceRow, 'pooling' | 'candidates'>;
  /** Inputs that begin alike share what they have computed. */
  readonly shares: boolean;
  /**
   * Reads the device's finding: numbers, of which those that are not finite are an error; undefined for nothing yet.
   */
  found(sampled: SampledToken): Float32Array | undefined;
}

/** The outputs of a model's own layers after its pooled states. */
export function pooledLook(pooling: Pooling): Look {
  return { asked: { pooling }, shares: false, found: ({ embedding }) => embedding };
}

/** How likely each of some tokens is to be next, as a logarithm. */
export function candidatesLook(candidates: readonly number[]): Look {
  return {
    asked: { candidates },
    shares: true,
    found: ({ top }) => {
      const found = new Map(top.map(({ token, logprob }) => [token, logprob]));
      return Float32Array.from(candidates, (token) => found.get(token) ?? NaN);
    },
  };
}

/** A sequence whose end says something. */
export interface HeadInput {
  readonly tokens: readonly number[];
  /** The place in a pair where the second text begins. */
  readonly secondText?: number | undefined;
}

/** The outcome of a row that a model's own head looks at. */
export interface HeadedRowEnd<Result> {
  /** @param outputs of the head, one for each input */
  found(outputs: readonly Float32Array[]): Result;
  failed(error: RowError): Result;
}

/** Inputs of one row that are computed at once: each holds its tokens while it waits. */
const AT_ONCE = 64;

/**
 * A row that a model's own head looks at: one input, or several, as a query has many documents. The first one is the
 * row itself; the others go on after it, in rows of their own.
 */
export class HeadedRow<Result> implements RunRow<Result> {
  readonly sequence: DeviceRow;
  readonly newTokens = 1;
  readonly sharedTokens: number;
  readonly goesOn: boolean;
  private readonly outputs: (Float32Array | undefined)[];
  private readonly toCome: number[];
  private left: number;
  private ended = false;

  /** @param inputs at least one, of at least one token each */
  constructor(
    private readonly inputs: readonly HeadInput[],
    private readonly look: Look,
    private readonly end: HeadedRowEnd<Result>,
  ) {
    this.sequence = sequenceOf(inputs[0] ?? { tokens: [] }, look);
    this.sharedTokens = look.shares ? this.sequence.tokens.length : 0;
    this.goesOn = look.shares && inputs.length > 1;
    this.outputs = inputs.map(() => undefined);
    this.toCome = [...inputs.keys()].slice(1);
    this.left = inputs.length;
  }

  accept(head: HeadOutput, row: RowId): Result | Continuation<Result> | undefined {
    const sampled = head.sampled.get(row);
    const output = sampled && this.look.found(sampled);
    return output && this.found(0, output, AT_ONCE);
  }

  /** @param more inputs that go on now */
  private found(index: number, output: Float32Array, more: number): Result | Continuation<Result> {
    if (this.ended) return new Continuation();
    if (!output.every((value) => Number.isFinite(value))) {
      this.ended = true;
      return this.end.failed(
        new RowError(
          'numeric',
          "what the model's head finds is not finite: its weights hold such numbers, or it overflows",
        ),
      );
    }
    this.outputs[index] = output;
    this.left--;
    if (this.left > 0)
      return new Continuation(
        this.toCome
          .splice(0, more)
          .map(
            (next) => new OtherInput(this.inputs[next] ?? { tokens: [] }, this.look, (own) => this.found(next, own, 1)),
          ),
      );
    this.ended = true;
    try {
      return this.end.found(this.outputs.map((each) => each ?? new Float32Array()));
    } catch (error) {
      if (error instanceof RowError) return this.end.failed(error);
      throw error;
    }
  }
}

class OtherInput<Result> implements RunRow<Result> {
  readonly sequence: DeviceRow;
  readonly newTokens = 1;
  readonly sharedTokens: number;

  constructor(
    input: HeadInput,
    private readonly look: Look,
    private readonly onFound: (output: Float32Array) => Result | Continuation<Result>,
  ) {
    this.sequence = sequenceOf(input, look);
    this.sharedTokens = look.shares ? this.sequence.tokens.length : 0;
  }

  accept(head: HeadOutput, row: RowId): Result | Continuation<Result> | undefined {
    const sampled = head.sampled.get(row);
    const output = sampled && this.look.found(sampled);
    return output && this.onFound(output);
  }
}

function sequenceOf({ tokens, secondText }: HeadInput, { asked }: Look): DeviceRow {
  return {
    ...GREEDY,
    tokens,
    capacityTokens: tokens.length + 1,
    ...asked,
    ...(secondText !== undefined && { secondText }),
  };
}
