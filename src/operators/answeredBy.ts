import { defer, tap, type OperatorFunction } from 'rxjs';
import { checkObject } from '../arguments/checkMembers.js';
import { found } from '../arguments/found.js';
import type { AnswerKind, Answers } from '../engine/rows/Answers.js';
import type { Generation } from '../engine/rows/Generation.js';
import { UsageError } from '../errors/UsageError.js';
import type { RowInput } from '../Row.js';
import { generatedRows } from './generatedRows.js';
import { checkPulledOptions, pulled, type PulledOptions } from './pulled.js';

/** What can classify, score and embed rows: an engine. */
export interface AnswerSource {
  answering<Kind extends AnswerKind>(
    kind: Kind,
    rows: AsyncIterable<RowInput>,
    options: Answers[Kind]['options'],
  ): Generation<Answers[Kind]['result']>;
}

/** The options, of which the rest is for the engine to check. @throws UsageError for what is no engine */
export function checkedSource<Options extends object>(engine: AnswerSource, options: Options): Options {
  if (typeof (engine as Partial<AnswerSource> | null | undefined)?.answering !== 'function')
    throw new UsageError(`engine: found ${found(engine)}, expected an open engine`);
  checkObject('options', options);
  return options;
}

/**
 * The results of every row of a stream. @param compose starts a run, for each subscription
 * @throws UsageError for a queue out of range
 */
export function answeredBy<Result>(
  compose: (rows: AsyncIterable<RowInput>) => Generation<Result>,
  queue: PulledOptions = {},
): OperatorFunction<RowInput, Result> {
  checkPulledOptions('queue', queue);
  return (rows$) =>
    defer(() => {
      const generation = compose(pulled(rows$, queue));
      return generatedRows(generation).pipe(
        tap((result) => {
          generation.delivered(result);
        }),
      );
    });
}
