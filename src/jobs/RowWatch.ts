import type { AnyResult } from '../Results.js';
import type { RowFailure, RowInput } from '../Row.js';

/** Looks on as rows go to the engine: one of them may end the process. */
export interface RowWatch {
  /** Rows of the input before this one go to the engine by themselves, each in a call of its own. */
  readonly suspected: number;
  /**
   * Called before a row goes to the engine.
   * @param index the row's place in the input
   * @returns the error that it is, without being answered
   */
  sends(index: number): RowFailure | undefined;
}

/** An engine's answers to the rows of one call. */
type Answer = (rows: AsyncIterable<RowInput>) => AsyncIterable<AnyResult>;

/** The answers to rows, of which those that are suspected have no company. */
export function answersApart(
  rows: AsyncGenerator<RowInput, void, undefined>,
  watch: RowWatch | undefined,
  answer: Answer,
): AsyncIterable<AnyResult> {
  return watch === undefined ? answer(rows) : apart(rows, watch.suspected, answer);
}

async function* apart(
  rows: AsyncGenerator<RowInput, void, undefined>,
  suspected: number,
  answer: Answer,
): AsyncGenerator<AnyResult, void, undefined> {
  try {
    for (let step = await rows.next(); step.done !== true; step = await rows.next()) {
      const alone = (step.value.index ?? 0) < suspected;
      yield* answer(following(step.value, alone ? undefined : rows));
    }
  } finally {
    await rows.return();
  }
}

async function* following(
  first: RowInput,
  others: AsyncIterable<RowInput> | undefined,
): AsyncGenerator<RowInput, void, undefined> {
  yield first;
  if (others) yield* others;
}
