import type { OperatorFunction } from 'rxjs';
import type { Answers } from '../engine/rows/Answers.js';
import type { ClassifyResult } from '../Results.js';
import type { RowInput } from '../Row.js';
import { answeredBy, checkedSource, type AnswerSource } from './answeredBy.js';
import type { PulledOptions } from './pulled.js';

/**
 * Tells for every row of a stream how likely labels are after its prompt. Rows wait in a bounded queue, as for
 * `offloadGenerate`; for input that can be pulled `engine.classify` needs none.
 *
 * @param engine an open engine
 * @param options of the rows and the run; `queue` bounds the rows that wait
 * @returns an operator; a row that is bad becomes a result with `error`, only a failed run is the stream's error
 * @throws UsageError for what is no engine, or an option out of range
 */
export function classify(
  engine: Pick<AnswerSource, 'classify'>,
  options: Answers['classify']['options'] & { readonly queue?: PulledOptions } = {},
): OperatorFunction<RowInput, ClassifyResult> {
  const { queue, ...runOptions } = checkedSource(engine, 'classify', options);
  return answeredBy((rows) => engine.classify(rows, runOptions), queue);
}
