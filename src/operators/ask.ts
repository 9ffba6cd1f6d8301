import type { OperatorFunction } from 'rxjs';
import type { GeneratedResults, RunOptions } from '../engine/rows/Generation.js';
import type { RowInput, RowResult } from '../Row.js';
import type { Question } from '../rows/questions.js';
import { answeredBy, checkedSource } from './answeredBy.js';
import type { PulledOptions } from './pulled.js';

/** A source that can ask rows several questions: an engine. */
export interface AskingSource {
  ask(
    rows: AsyncIterable<RowInput>,
    questions: readonly Question[],
    options?: Omit<RunOptions, 'questions'>,
  ): Pick<GeneratedResults<RowResult>, typeof Symbol.asyncIterator>;
}

/**
 * Asks several questions about every row of a stream. Rows wait in a bounded queue, as for `offloadGenerate`; for input
 * that can be pulled `engine.ask` needs none.
 *
 * @param engine an open engine
 * @param options of the rows and the run; `queue` bounds the rows that wait
 * @returns an operator; a row that is bad becomes a result with `error`, only a failed run is the stream's error
 * @throws UsageError for what is no engine, or an option out of range
 */
export function ask(
  engine: AskingSource,
  questions: readonly Question[],
  options: Omit<RunOptions, 'questions'> & { readonly queue?: PulledOptions } = {},
): OperatorFunction<RowInput, RowResult> {
  const { queue, ...runOptions } = checkedSource(engine, 'ask', options);
  return answeredBy((rows) => engine.ask(rows, questions, runOptions), queue);
}
