import { inTurns } from '../../collections/inTurns.js';
import type { Work } from '../../collections/drained.js';
import { RowError } from '../../errors/RowError.js';
import type { KeptAnswers } from '../../KeptAnswer.js';
import type { ResultBase } from '../../Results.js';
import type { Row, RowFailure, RowInput } from '../../Row.js';
import { duplicateId } from '../../rows/failedResult.js';
import type { RunRecorder } from '../execution/RunRecorder.js';
import type { RunRow } from '../execution/RunRow.js';
import { acceptedRows } from './acceptedRows.js';
import type { Ordered, RowIdentity } from './ActiveRow.js';
import type { AnswerKind, Answers } from './Answers.js';
import { tokenBytes } from '../../rows/heldBytes.js';
import type { InFlight } from './InFlight.js';
import { answerKey } from './rowKey.js';
import type { HeldRow, Outcome, SharedAnswers } from './SharedAnswers.js';

type ResultOf<Kind extends AnswerKind> = Answers[Kind]['result'];

/** How a row of a run is ended: with its answer, or with an error. */
export interface AnswerEnd<Kind extends AnswerKind> {
  answered(answer: KeptAnswers[Kind]): Ordered<ResultOf<Kind>>;
  failed(error: RowError): Ordered<ResultOf<Kind>>;
}

/** A row that has been checked, whether or not it has to be computed. */
export interface PreparedAnswer<Kind extends AnswerKind> {
  /** The tokens of the row's prompt. */
  readonly tokens: readonly number[];
  /** Tokens that were cut of it. */
  readonly truncated?: number | undefined;
  /** All that decides its answer beside the prompt: see `answerKey`. */
  readonly parameters: readonly unknown[];
  readonly usage: ResultBase['usage'];
  /** The row, to be computed. */
  computed(end: AnswerEnd<Kind>): RunRow<Ordered<ResultOf<Kind>>>;
}

/** The task that is asked of rows. */
export interface AnswerTask<Kind extends AnswerKind> {
  readonly kind: Kind;
  /** @throws RowError for a row that cannot be done; anything else ends the run */
  prepare(row: Row): Work<PreparedAnswer<Kind> | Promise<PreparedAnswer<Kind>>>;
}

export interface AnswerIntakeSetup<Kind extends AnswerKind> {
  readonly task: AnswerTask<Kind>;
  readonly inFlight: InFlight;
  readonly recorder: RunRecorder;
  /** Gets the rows that need no computing. */
  readonly answers: SharedAnswers<Kind, ResultOf<Kind>>;
  /** The engine's, as one word: answers are kept under it. */
  readonly resultIdentity: string;
  /** Nobody waits for rows any more. */
  readonly ended?: AbortSignal | undefined;
}

/**
 * Turns rows of input into rows of a run, as `intake` does for those that generate: a bad row is a result with an
 * error, and nobody else's affair; one that is equal to another has its answer.
 */
export async function* answerIntake<Kind extends AnswerKind>(
  rows: AsyncIterable<RowInput> | Iterable<RowInput>,
  setup: AnswerIntakeSetup<Kind>,
): AsyncGenerator<RunRow<Ordered<ResultOf<Kind>>>, void, undefined> {
  const { task, recorder, answers, resultIdentity } = setup;
  const parts = { signal: setup.ended, part: <T>(run: () => T): T => recorder.timed(run) };
  let sequence = 0;
  for await (const { input, identity, duplicate, hold } of acceptedRows(rows, setup)) {
    let row: RowIdentity = { ...identity, sequence: sequence++ };
    setup.inFlight.expect(row.sequence, hold);
    try {
      if ('error' in input) throw new RowError(input.error.code, input.error.message);
      const prepared = await inTurns(task.prepare(input), parts);
      if (duplicate) throw new RowError('duplicate-id', duplicateId(identity.id).message);
      const { parameters, tokens, usage, truncated } = prepared;
      if (truncated !== undefined) row = { ...row, truncated };
      recorder.prompt(tokens, truncated);
      // Their completions go on after them, and the tokens of these are as many as they say.
      setup.inFlight.settle(hold, tokenBytes(tokens) + usage.completionTokens * tokenBytes([0]));
      const key = answers.needsKeys
        ? recorder.timed(() => answerKey(task.kind, parameters, tokens, resultIdentity))
        : undefined;
      const held: HeldRow<Kind, ResultOf<Kind>> = {
        sequence: row.sequence,
        usage: () => usage,
        result: (outcome) => resultOf(row, outcome),
      };
      if (key !== undefined && (await answers.has(key, held))) continue;
      const ended = (outcome: Outcome<Kind>): Ordered<ResultOf<Kind>> => {
        recorder.row('error' in outcome);
        if (key !== undefined) answers.answered(key, outcome);
        return { sequence: row.sequence, result: resultOf(row, outcome) };
      };
      yield prepared.computed({
        answered: (answer) => ended({ answer, usage }),
        failed: (error) => ended(failure(error)),
      });
    } catch (error) {
      if (!(error instanceof RowError)) throw error;
      recorder.row(true);
      setup.inFlight.settle(hold, 0);
      answers.refused({ sequence: row.sequence, result: resultOf(row, failure(error)) });
    }
  }
  answers.inputOver();
}

/** As results are written: what was asked for, then what it took. */
function resultOf<Kind extends AnswerKind>(
  { id, index, truncated, carry }: RowIdentity,
  outcome: Outcome<Kind>,
): ResultOf<Kind> {
  const { usage } = outcome;
  const told = 'answer' in outcome ? { ...outcome.answer, usage } : { usage, error: outcome.error };
  return {
    id,
    index,
    ...told,
    ...(truncated !== undefined && { truncated }),
    ...(carry && { carry }),
  } as ResultOf<Kind>;
}

function failure({ rowCode, message }: RowError): { readonly usage: ResultBase['usage']; readonly error: RowFailure } {
  return { usage: { promptTokens: 0, completionTokens: 0 }, error: { code: rowCode, message } };
}
