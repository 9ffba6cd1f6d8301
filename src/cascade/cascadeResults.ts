import { endedBy } from '../collections/endedBy.js';
import { InterruptedError } from '../errors/InterruptedError.js';
import { onAbort } from '../engine/execution/onAbort.js';
import { settledLookAhead, type RowLookAhead } from '../engine/rows/rowLookAhead.js';
import type { AnyResult } from '../Results.js';
import type { GenerateOptions, RowInput } from '../Row.js';
import type { Progress, RunStats } from '../RunStats.js';
import { CascadeRows } from './CascadeRows.js';
import type { CascadeEngine, CascadeStage } from './CascadeStage.js';
import { CascadeStats } from './CascadeStats.js';
import { confidenceOf } from './confidence.js';
import { StageEngines } from './StageEngines.js';

/** The bytes that waiting rows and results may take, where nothing is said. */
const WAITING_BYTES = 32 * 2 ** 20;
/** Rows that wait for a later model: of models that are all open few, so that results come soon. */
const WAITING_ROWS = { open: 4096, opened: 2 ** 20 } as const;

/** The options a cascade's run looks at itself. */
export interface CascadeOptions extends Pick<GenerateOptions, 'order' | 'signal' | 'onProgress' | 'onStats'> {
  readonly lookAhead?: RowLookAhead;
}

/** A task of an engine: what it makes of rows. */
export type Answer<Result> = (
  engine: CascadeEngine,
  rows: AsyncIterable<RowInput>,
  options: CascadeOptions,
) => AsyncIterable<Result>;

/**
 * The results of rows, each of the first model that is sure enough of it. The models take turns: the first answers rows
 * until as many of them wait for the others as may, then the next one answers these, and so on, until the input ends.
 * So no more than one has to be open at a time, what waits is bounded whatever the input, and results come in order.
 */
export function cascadeResults<Result extends AnyResult>(
  stages: readonly CascadeStage[],
  input: AsyncIterable<RowInput> | Iterable<RowInput>,
  { onProgress, onStats, ...options }: CascadeOptions,
  answer: Answer<Result>,
): AsyncGenerator<Result, void, undefined> {
  // A model none of whose answers stand need not be asked.
  const asked = stages.filter(({ threshold }) => threshold !== null);
  const live = asked.every(({ engine }) => engine !== undefined);
  const bytes = Math.min(settledLookAhead(options.lookAhead).bytes, WAITING_BYTES);
  const limits = { rows: live ? WAITING_ROWS.open : WAITING_ROWS.opened, bytes };
  const rows = new CascadeRows<Result>(input, limits, options.order !== 'completion', live);
  const stats = new CascadeStats(asked);
  const engines = new StageEngines();
  const ending = new AbortController();

  const pass = async function* (
    at: number,
    stage: CascadeStage,
    given: AsyncIterable<RowInput>,
  ): AsyncGenerator<Result, void, undefined> {
    const engine = await engines.of(stage);
    const { name, threshold } = stage;
    const results = answer(engine, given, {
      ...options,
      signal: ending.signal,
      onStats: (run: RunStats) => {
        stats.add(at, run);
      },
      ...(onProgress && { onProgress: (now: Progress): unknown => onProgress(stats.progress(now, rows.counts)) }),
    });
    for await (const result of results) {
      const stands = threshold === undefined || confidenceOf(result) >= (threshold ?? 0);
      stats.answered(at, stands && !result.error);
      yield* rows.receive(result, name, stands);
    }
    if (ending.signal.aborted) throw new InterruptedError(ending.signal.reason);
    rows.checkAnswered(name);
  };

  const run = async function* (): AsyncGenerator<Result, void, undefined> {
    const { signal } = options;
    if (signal?.aborted === true) ending.abort(signal.reason);
    else rows.begin();
    const stop = signal && onAbort(signal, (reason) => ending.abort(reason));
    try {
      do {
        for (const [at, stage] of asked.entries())
          if (at === 0) yield* pass(at, stage, rows.fromInput());
          else if (rows.goOn) yield* pass(at, stage, rows.fromEarlier());
      } while (!rows.ended);
    } catch (error) {
      yield* rows.rest();
      throw error;
    } finally {
      stop?.();
      rows.close();
      await engines.close();
      const total = stats.total(rows.counts);
      // One that is asynchronous is waited for.
      const told: unknown = total && onStats?.(total);
      await told;
    }
  };
  const made = run();
  return endedBy(made, async () => {
    ending.abort();
    rows.close();
    // An engine that is told to end may say so by an error.
    await made.return().catch(() => undefined);
  });
}
