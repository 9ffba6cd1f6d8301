import { EMPTY, map } from 'rxjs';
import { madeOf } from '../collections/cancellable.js';
import { AskedRows, type OpenLimits } from '../engine/rows/AskedRows.js';
import { settledLookAhead } from '../engine/rows/rowLookAhead.js';
import type { GeneratedResults, RowEvent, RunOptions } from '../engine/rows/Generation.js';
import type { RowInput, RowResult } from '../Row.js';
import type { Progress, RunStats } from '../RunStats.js';
import { areInTurn, settledQuestions } from '../rows/questions.js';

/** Rows that are answered and wait for an earlier one, at most. */
const WAITING = 4096;
/** Most that the rows may take that have answers to come, where nothing is said. */
const OPEN_BYTES = 64 * 2 ** 20;

/**
 * The results of rows that are asked several questions, each of which is a row of one run.
 *
 * @param generate a run that generates
 * @param places rows that are computed at once
 */
export function askedResults(
  generate: (rows: AsyncIterable<RowInput>, options: RunOptions) => GeneratedResults<RowResult>,
  rows: AsyncIterable<RowInput> | Iterable<RowInput>,
  { questions: given, order, onProgress, onStats, ...options }: RunOptions,
  places: number,
): GeneratedResults<RowResult> {
  const questions = settledQuestions('questions', given);
  const ahead = settledLookAhead(options.lookAhead);
  const limits: OpenLimits = {
    // Of rows with questions to come the keys and values have to stay: few more than there are places.
    rows: places + (areInTurn(questions) ? Math.ceil(places / 4) : ahead.rows),
    bytes: Math.min(ahead.bytes, OPEN_BYTES),
    waiting: WAITING,
  };
  const asked = new AskedRows(questions, limits, order !== 'completion');
  // Statistics count rows, not their questions.
  const inRows = (stats: RunStats): RunStats => ({ ...stats, rows: { ...stats.rows, ...asked.counts } });
  const progressInRows = (progress: Progress): Progress => {
    const { done, failed } = asked.counts;
    return { ...progress, rowsDone: done, rowsFailed: failed };
  };
  const run = generate(asked.feed(rows), {
    confidence: true,
    ...options,
    order: 'completion',
    ...(onProgress && { onProgress: (progress: Progress): unknown => onProgress(progressInRows(progress)) }),
    ...(onStats && { onStats: (stats: RunStats): unknown => onStats(inRows(stats)) }),
  });
  const results = madeOf(run, async function* (answers) {
    try {
      for await (const answer of answers) yield* asked.receive(answer);
    } catch (error) {
      yield* asked.rest();
      throw error;
    } finally {
      asked.close();
    }
    yield* asked.rest();
  });
  const stats = run.stats.then(inRows);
  stats.catch(() => undefined);
  const iterator: AsyncGenerator<RowResult, void, undefined> = {
    next: () => results.next(),
    return: async () => {
      asked.close();
      await results.return?.();
      return { done: true, value: undefined };
    },
    throw: async (error) => {
      await iterator.return();
      throw error;
    },
    [Symbol.asyncIterator]: () => iterator,
    [Symbol.asyncDispose]: async () => {
      await iterator.return();
    },
  };
  return Object.assign(iterator, {
    stats,
    progress$: run.progress$.pipe(map(progressInRows)),
    // Answers of rows with questions come as a whole.
    deltas$: EMPTY,
    events: async function* (): AsyncGenerator<RowEvent, void, undefined> {
      for await (const result of iterator) yield { type: 'result', result };
    },
  });
}
