import { Observable, type OperatorFunction } from 'rxjs';
import { checkObject } from '../arguments/checkMembers.js';
import { found } from '../arguments/found.js';
import type { AnswerKind, Answers } from '../engine/rows/Answers.js';
import { UsageError } from '../errors/UsageError.js';
import type { RowInput } from '../Row.js';
import { checkPulledOptions, pulled, type PulledOptions } from './pulled.js';

/** A source that can classify, score and embed rows: an engine. */
export type AnswerSource = {
  [Kind in AnswerKind]: (
    rows: AsyncIterable<RowInput>,
    options: Answers[Kind]['options'],
  ) => AsyncIterable<Answers[Kind]['result']>;
};

/** The options, of which the rest is for the engine to check. @throws UsageError for what is no engine */
export function checkedSource<Options extends object>(engine: unknown, method: string, options: Options): Options {
  if (typeof (engine as Readonly<Record<string, unknown>> | null | undefined)?.[method] !== 'function')
    throw new UsageError(`engine: found ${found(engine)}, expected an open engine`);
  checkObject('options', options);
  return options;
}

/**
 * The results of every row of a stream. @param answer starts a run, for each subscription
 * @throws UsageError for a queue out of range
 */
export function answeredBy<Result>(
  answer: (rows: AsyncIterable<RowInput>) => AsyncIterable<Result>,
  queue: PulledOptions = {},
): OperatorFunction<RowInput, Result> {
  checkPulledOptions('queue', queue);
  return (rows$) =>
    new Observable((subscriber) => {
      const results = answer(pulled(rows$, queue))[Symbol.asyncIterator]();
      // Not by `from`: that would end a run whose consumer has gone with its next result only.
      subscriber.add(() => {
        results.return?.().catch(() => undefined);
      });
      const take = async (): Promise<void> => {
        try {
          for (let step = await results.next(); step.done !== true; step = await results.next())
            subscriber.next(step.value);
          subscriber.complete();
        } catch (error) {
          subscriber.error(error);
        }
      };
      void take();
    });
}
