import { map } from 'rxjs';
import { madeOf } from '../collections/cancellable.js';
import { endedBy } from '../collections/endedBy.js';
import { type OpenLimits, SplitRows, type RowSplitter } from '../engine/rows/SplitRows.js';
import { settledLookAhead } from '../engine/rows/rowLookAhead.js';
import type { RunOptions, RunResults } from '../engine/rows/Generation.js';
import type { ResultBase } from '../Results.js';
import type { RowInput, RowResult } from '../Row.js';
import type { Progress, RunStats } from '../RunStats.js';

/** Rows that are answered and wait for an earlier one, at most. */
const WAITING = 4096;
/** Most that the rows may take that have results to come, where nothing is said. */
const OPEN_BYTES = 64 * 2 ** 20;

/** How many rows may be split at once. @param rows default: as far as the input is read ahead */
export function openLimits(options: Pick<RunOptions, 'lookAhead'>, rows?: number): OpenLimits {
  const ahead = settledLookAhead(options.lookAhead);
  return { rows: rows ?? Math.max(1, ahead.rows), bytes: Math.min(ahead.bytes, OPEN_BYTES), waiting: WAITING };
}

type SplitOptions = Pick<RunOptions, 'order' | 'onProgress' | 'onStats'>;

/**
 * The results of rows each of which is several rows of one run.
 *
 * @param begin that run, told what it is to do in the place of the caller's options
 * @param options the caller's
 */
export function splitResults<Result extends ResultBase & Partial<Pick<RowResult, 'finishReason'>>>(
  begin: (rows: AsyncIterable<RowInput>, told: SplitOptions) => RunResults<Result>,
  rows: AsyncIterable<RowInput> | Iterable<RowInput>,
  splitter: RowSplitter<Result>,
  limits: OpenLimits,
  { order, onProgress, onStats }: SplitOptions,
): RunResults<Result> {
  const split = new SplitRows(splitter, limits, order !== 'completion');
  // Statistics count rows, not what they are split to.
  const inRows = (stats: RunStats): RunStats => ({ ...stats, rows: { ...stats.rows, ...split.counts } });
  const progressInRows = (progress: Progress): Progress => {
    const { done, failed } = split.counts;
    return { ...progress, rowsDone: done, rowsFailed: failed };
  };
  const run = begin(split.feed(rows), {
    order: 'completion',
    ...(onProgress && { onProgress: (progress: Progress): unknown => onProgress(progressInRows(progress)) }),
    ...(onStats && { onStats: (stats: RunStats): unknown => onStats(inRows(stats)) }),
  });
  const results = madeOf(run, async function* (answers) {
    try {
      for await (const answer of answers) yield* await split.receive(answer);
    } catch (error) {
      yield* split.rest();
      throw error;
    } finally {
      split.close();
    }
    yield* split.rest();
  });
  const stats = run.stats.then(inRows);
  stats.catch(() => undefined);
  const iterator = endedBy(results, async () => {
    split.close();
    await results.return?.();
  });
  return Object.assign(iterator, { stats, progress$: run.progress$.pipe(map(progressInRows)) });
}
