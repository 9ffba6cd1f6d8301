import type { RowFeed } from './RowFeed.js';
import type { RunRecorder } from './RunRecorder.js';

/** The events of a call. */
export interface CallEvents<Result> {
  /** One of its rows has come to its end. */
  result(result: Result): void;
  /** All of its rows have, and hold nothing any more. */
  over(): void;
  /** Whatever became of it: nothing of it holds memory any more. */
  left(): void;
  /** It cannot go on, and others can: its rows failed to come, or what they do with their tokens has. */
  failed(error: unknown): void;
}

export interface CallOptions {
  /** Rows of a call of a higher priority come in first, in others' places if need be. Default 0. */
  readonly priority?: number | undefined;
  /** Its rows share what is computed of prompts that begin alike. Default: as the run has it. */
  readonly sharePrefixes?: boolean | undefined;
}

/** Rows that somebody wants results of, and what a run has of them. */
export class Call<Result> {
  readonly priority: number;
  readonly sharePrefixes: boolean;
  /** Its rows that have a place in the block. */
  running = 0;
  /**
   * Its rows that hold memory: those with a place, those that have given up their places for a while, and those that
   * are leaving.
   */
  held = 0;

  constructor(
    readonly feed: RowFeed<Result>,
    readonly recorder: Pick<RunRecorder, 'admitted' | 'rows' | 'spent' | 'shared'>,
    readonly events: CallEvents<Result>,
    { priority = 0, sharePrefixes = true }: CallOptions = {},
  ) {
    this.priority = priority;
    this.sharePrefixes = sharePrefixes;
  }
}
