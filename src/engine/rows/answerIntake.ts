import type { Subject } from 'rxjs';
import { RowError } from '../../errors/RowError.js';
import type { ResultBase } from '../../Results.js';
import type { Row, RowInput } from '../../Row.js';
import { duplicateId } from '../../rows/duplicateId.js';
import type { RunRecorder } from '../execution/RunRecorder.js';
import type { RunRow } from '../execution/RunRow.js';
import { acceptedRows } from './acceptedRows.js';
import type { Ordered, RowIdentity } from './ActiveRow.js';
import type { InFlight } from './InFlight.js';

/** How a row of a run is ended: with what of a result is its own, or with an error. */
export interface AnswerEnd<Answer> {
  answered(answer: Answer & Pick<ResultBase, 'usage'>): Ordered<Answer & ResultBase>;
  failed(error: RowError): Ordered<Answer & ResultBase>;
}

/** What is asked of rows. */
export interface AnswerTask<Answer> {
  /** Awaited before the first row. What it throws ends the run. */
  ready?(): Promise<void>;
  /** @throws RowError for a row that cannot be done */
  prepare(row: Row, end: AnswerEnd<Answer>): RunRow<Ordered<Answer & ResultBase>>;
}

export interface AnswerIntakeSetup<Answer> {
  readonly task: AnswerTask<Answer>;
  readonly inFlight: InFlight;
  readonly recorder: RunRecorder;
  /** Gets the results of rows that were refused; completes with the input. */
  readonly refused$: Subject<Ordered<Answer & ResultBase>>;
}

/** Turns rows of input into rows of a run, as `intake` does for those that generate: a bad row is a result with an error, and nobody else's affair. */
export async function* answerIntake<Answer extends object>(
  rows: AsyncIterable<RowInput> | Iterable<RowInput>, setup: AnswerIntakeSetup<Answer>,
): AsyncGenerator<RunRow<Ordered<Answer & ResultBase>>, void, undefined> {
  const { task, recorder, refused$ } = setup;
  await task.ready?.();
  let sequence = 0;
  for await (const { input, identity, duplicate } of acceptedRows(rows, setup)) {
    const end = endOf<Answer>({ ...identity, sequence: sequence++ }, recorder);
    try {
      if ('error' in input) throw new RowError(input.error.code, input.error.message);
      const row = recorder.timed(() => task.prepare(input, end));
      if (duplicate) throw new RowError('duplicate-id', duplicateId(identity.id).message);
      yield row;
    } catch (error) {
      if (!(error instanceof RowError)) throw error;
      refused$.next(end.failed(error));
    }
  }
  refused$.complete();
}

function endOf<Answer>({ id, index, carry, sequence }: RowIdentity, recorder: RunRecorder): AnswerEnd<Answer> {
  const row = carry && { row: carry };
  return {
    answered: ({ usage, ...answer }) => {
      recorder.row(false);
      // As results are written: what was asked for, then what it took.
      return { sequence, result: { id, index, ...answer, usage, ...row } as unknown as Answer & ResultBase };
    },
    failed: ({ rowCode, message }) => {
      recorder.row(true);
      return { sequence, result: { id, index, usage: { promptTokens: 0, completionTokens: 0 }, error: { code: rowCode, message }, ...row } as unknown as Answer & ResultBase };
    },
  };
}
