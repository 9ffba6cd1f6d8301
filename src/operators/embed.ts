import type { OperatorFunction } from 'rxjs';
import type { Answers } from '../engine/rows/Answers.js';
import type { EmbedResult } from '../Results.js';
import type { RowInput } from '../Row.js';
import { answeredBy, checkedSource, type AnswerSource } from './answeredBy.js';
import type { PulledOptions } from './pulled.js';

/**
 * Makes an embedding of every row of a stream. Rows wait in a bounded queue, as for `offloadGenerate`; for input that
 * can be pulled `engine.embed` needs none.
 *
 * @param engine an open engine
 * @param options of the rows and the run; `queue` bounds the rows that wait
 * @returns an operator; a row that is bad becomes a result with `error`, only a failed run is the stream's error
 * @throws UsageError for what is no engine, or an option out of range
 */
export function embed(
  engine: Pick<AnswerSource, 'embed'>,
  options: Answers['embed']['options'] & { readonly queue?: PulledOptions } = {},
): OperatorFunction<RowInput, EmbedResult> {
  const { queue, ...runOptions } = checkedSource(engine, 'embed', options);
  return answeredBy((rows) => engine.embed(rows, runOptions), queue);
}
