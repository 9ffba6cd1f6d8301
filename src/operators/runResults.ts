import {
  defer,
  dematerialize,
  finalize,
  identity,
  map,
  materialize,
  merge,
  Observable,
  Subject,
  switchMap,
  tap,
  type MonoTypeOperatorFunction,
} from 'rxjs';
import { onAbort } from '../engine/execution/onAbort.js';
import type { GeneratedResults, Generation, RowEvent } from '../engine/rows/Generation.js';
import { InterruptedError } from '../errors/InterruptedError.js';
import type { Progress, RunStats } from '../RunStats.js';
import { UsageError } from '../errors/UsageError.js';
import type { GenerateOptions, RowDelta } from '../Row.js';
import { Fifo } from '../collections/Channel.js';
import { figuresOf } from '../telemetry/callSpan.js';
import type { Span } from '../telemetry/spans.js';
import { EventQueue } from './EventQueue.js';
import { inputOrder } from './inputOrder.js';
import { channelOf } from './iterated.js';

type Callbacks = Pick<GenerateOptions, 'onStats' | 'onProgress' | 'onDelta'>;

/** Whom a run calls back. */
export interface RunCallbacks extends Required<Pick<Callbacks, 'onStats' | 'onProgress'>> {
  /** To be asked when the run begins: undefined where nobody wants deltas. */
  readonly deltas: () => Callbacks['onDelta'];
}

/**
 * The results of a run, pulled, with its statistics, progress, and what its answers grow by.
 *
 * @param options those of the caller, with callbacks of its own; first looked at when `prepare` has checked them
 * @param prepare checks what it is about, and returns what makes the run, which is told whom to call back
 * @param traced begins the run's span
 * @throws what `prepare` throws
 */
export function runResults<Result>(
  options: Callbacks,
  prepare: (callbacks: RunCallbacks) => () => Generation<Result>,
  traced: () => Span | undefined = () => undefined,
): GeneratedResults<Result> {
  const progress$ = new Subject<Progress>();
  const deltas$ = new Subject<RowDelta>();
  let final: RunStats | undefined;
  const compose = prepare({
    // What one that is asynchronous returns is for the run to wait for.
    onStats: (stats): unknown => {
      final = stats;
      return options.onStats?.(stats);
    },
    onProgress: (progress): unknown => {
      progress$.next(progress);
      return options.onProgress?.(progress);
    },
    deltas: () =>
      options.onDelta || deltas$.observed
        ? (delta): unknown => {
            deltas$.next(delta);
            return options.onDelta?.(delta);
          }
        : undefined,
  });
  const { promise: stats, resolve, reject } = withResolvers<RunStats>();
  // Nobody has to look at it.
  stats.catch(() => undefined);
  let generation: Generation<Result> | undefined;
  /** The places of the results that wait to be taken, which are taken in the order in which they came. */
  const waiting = new Fifo<number>();
  let failure: { readonly error: unknown } | undefined;
  let span: Span | undefined;
  const over = async (): Promise<void> => {
    try {
      await generation?.settled();
      if (failure) throw failure.error;
      if (!final) throw new InterruptedError('the results were given up before the run began');
      resolve(final);
      span?.set(figuresOf(final));
      span?.end();
    } catch (error) {
      reject(error);
      span?.end(error);
    }
    progress$.complete();
    deltas$.complete();
  };
  const results$ = defer(() => {
    if (generation)
      throw new UsageError(
        'results: found some that are iterated over already, expected one iteration: of them or of events()',
      );
    span = traced();
    generation = compose();
    return resultsOf(generation, (sequence) => {
      waiting.push(sequence);
    });
  }).pipe(
    tap({
      error: (error: unknown) => {
        failure = { error };
      },
    }),
    finalize(() => void over()),
  );
  const taken = (): void => {
    const sequence = waiting.shift();
    if (sequence !== undefined) generation?.delivered(sequence);
  };
  const settled = async (): Promise<void> => {
    if (!generation) await over();
    await generation?.settled();
  };
  const events = (): AsyncGenerator<RowEvent<Result>, void, undefined> =>
    channelOf(
      merge(
        deltas$.pipe(map((delta): RowEvent<Result> => ({ type: 'delta', delta }))),
        results$.pipe(map((result): RowEvent<Result> => ({ type: 'result', result }))),
      ),
      {
        queue: new EventQueue<Result>(),
        taken: ({ type }) => {
          if (type === 'result') taken();
        },
        settled,
      },
    );
  return Object.assign(channelOf(results$, { taken, settled }), {
    stats,
    progress$: progress$.asObservable(),
    deltas$: deltas$.asObservable(),
    events,
  });
}

/**
 * The rows of a run that have come to their ends, those that need no computing among them.
 * `delivered` is to be called for each.
 * @param emitted called with the place of each, before it is
 */
function resultsOf<Result>(
  { computed, options, closed, answered, answered$ }: Generation<Result>,
  emitted: (sequence: number) => void,
): Observable<Result> {
  const computed$ = new Subject<void>();
  const stages$ = computed().pipe(
    tap({
      complete: () => {
        computed$.next();
      },
    }),
  );
  return merge(answered$.pipe(interruptible([options.signal, closed], computed$)), stages$).pipe(
    tap(answered),
    options.order === 'completion' ? identity : inputOrder(({ sequence }) => sequence),
    map(({ sequence, result }) => {
      emitted(sequence);
      return result;
    }),
  );
}

/**
 * The same, which from `computed$` on ends with a signal: a run that has computed all of its rows does not listen to
 * it any more, and may have to wait for answers to be kept.
 */
function interruptible<T>(
  signals: readonly (AbortSignal | undefined)[],
  computed$: Observable<void>,
): MonoTypeOperatorFunction<T> {
  const aborted$ = new Observable<never>((subscriber) => {
    const interrupt = (reason: unknown): void => {
      subscriber.error(new InterruptedError(reason));
    };
    // Not `AbortSignal.any`: Node 20 keeps each of its signals as long as those that it stands for.
    for (const signal of signals) {
      if (signal?.aborted === true) interrupt(signal.reason);
      if (signal) subscriber.add(onAbort(signal, interrupt));
    }
  });
  return (source$) =>
    merge(source$.pipe(materialize()), computed$.pipe(switchMap(() => aborted$))).pipe(dematerialize());
}

/** As `Promise.withResolvers`, which Node 20 lacks. */
function withResolvers<T>(): {
  readonly promise: Promise<T>;
  readonly resolve: (value: T) => void;
  readonly reject: (error: unknown) => void;
} {
  let [resolve, reject]: [(value: T) => void, (error: unknown) => void] = [() => undefined, () => undefined];
  const promise = new Promise<T>((...both) => ([resolve, reject] = both));
  return { promise, resolve, reject };
}
