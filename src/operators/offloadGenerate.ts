import type { OperatorFunction } from 'rxjs';
import type { GenerationSource, RunOptions, ValueOf } from '../engine/rows/Generation.js';
import type { RowInput, RowResult } from '../Row.js';
import { answeredBy, checkedSource } from './answeredBy.js';
import type { PulledOptions } from './pulled.js';

/**
 * Generates an answer for every row of a stream.
 *
 *     rows      --a--b-c-----|
 *     results   ------a---b---(c|)       order: 'input'
 *
 * An Observable cannot be slowed down: rows that arrive faster than they are answered wait in a bounded queue. For
 * input that can be pulled, files above all, `engine.generate` needs no queue.
 *
 * @example
 * prompts$.pipe(offloadGenerate(engine, { maxNewTokens: 64 })).subscribe((row) => console.log(row.text));
 *
 * @param engine an open engine
 * @param options of the rows and the run; `queue` bounds the rows that wait
 * @returns an operator; a row that is bad becomes a result with `error`, only a failed run is the stream's error
 * @throws UsageError for what is no engine, or a queue out of range
 */
export function offloadGenerate<Options extends RunOptions & { readonly queue?: PulledOptions } = RunOptions>(
  engine: GenerationSource,
  options?: Options,
): OperatorFunction<RowInput, RowResult<ValueOf<Options>>>;
export function offloadGenerate(
  engine: GenerationSource,
  options: RunOptions & { readonly queue?: PulledOptions } = {},
): OperatorFunction<RowInput, RowResult> {
  const { queue, ...runOptions } = checkedSource(engine, 'generate', options);
  return answeredBy((rows) => engine.generate(rows, runOptions), queue);
}
