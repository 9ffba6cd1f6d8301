import type { Observable } from 'rxjs';
import type * as z from 'zod';
import type { GenerateOptions, RowDelta, RowInput, RowResult } from '../../Row.js';
import type { AnswerSchema } from '../../schema/zodJsonSchema.js';
import type { StageContext } from '../execution/Run.js';
import type { IssuedSquare } from '../execution/IssuedSquare.js';
import type { Schedule } from '../schedules/Schedule.js';
import type { Peers } from '../peers/PeerConnection.js';
import type { AnswerOptions } from '../../Results.js';
import type { Progress, RunStats } from '../../RunStats.js';
import type { Ordered } from './ActiveRow.js';
import type { RowLookAhead } from './rowLookAhead.js';

/** Options of one run: those of its rows, and how the run is composed. */
export interface RunOptions extends GenerateOptions {
  /**
   * A schema of zod 4, in the place of a `responseFormat`: answers are held to its JSON Schema, and `value` is what it
   * makes of them. Rows with a `responseFormat` of their own have that, and their values are not its own.
   */
  readonly schema?: AnswerSchema;
  /** The order of squares. Default `diagonalBlock()`. */
  readonly schedule?: Schedule;
  /** The stages that squares pass. Default `defaultPipeline`. */
  readonly pipeline?: (run: StageContext) => (squares$: Observable<IssuedSquare>) => Observable<IssuedSquare>;
  /** Squares that may be under way at once. Default: those of two layers, and 8 at least. */
  readonly window?: number;
  /**
   * Rows whose prompts begin alike share what is computed of that, and the memory it takes; of rows that are equal one
   * is computed. Nothing of it shows in results. Default true.
   */
  readonly sharePrefixes?: boolean;
  /** How far the input is read ahead. */
  readonly lookAhead?: RowLookAhead;
  /**
   * Rows of a call of a higher priority come in before those of others, and in their places where none is free; of
   * equal ones each has its share. From -1,000,000 to 1,000,000; default 0.
   */
  readonly priority?: number;
  /**
   * The engines of the model's other layers, for an engine that has the first ones only; for one of all layers, an
   * engine that computes prompts: see `Engine.follow`.
   */
  readonly peers?: Peers;
  /**
   * Parts of the block that pass the engines one after the other, so that all of these have something to compute: as
   * many as there are engines, or more, and at most as many as `batches`. Default: `batches`; where weights stream,
   * which each part needs anew, as many as there are engines. With the schedule `row`, which has one batch under way,
   * 1 at most.
   */
  readonly microBatches?: number;
}

/** The type of the values of a run's answers: those of its `schema`. */
export type ValueOf<Options> = Options extends { readonly schema: infer Schema extends AnswerSchema }
  ? z.core.output<Schema>
  : unknown;

/** Options of a run that follows the engine of the layers before. */
export type FollowOptions = Pick<RunOptions, 'pipeline' | 'window' | 'signal' | 'onProgress' | 'onStats' | 'onTrace'>;

/** How a run of rows that generate nothing is composed. */
export type Composition = Pick<
  RunOptions,
  'schedule' | 'pipeline' | 'window' | 'sharePrefixes' | 'lookAhead' | 'priority' | 'peers' | 'microBatches'
>;

/** The options of such a run: those of its rows, and how it is composed. */
export type AnswerRunOptions<Options extends AnswerOptions> = Options & Composition;

/**
 * The parts that `runResults` takes to answer one stream of rows: nothing happens before `computed` is subscribed to.
 */
export interface Generation<Result = RowResult> {
  /** The results of rows that are computed. @throws what the caller's pipeline throws */
  readonly computed: () => Observable<Ordered<Result>>;
  /** Resolves when nothing of it is left on the device. @throws what a callback has thrown */
  readonly settled: () => Promise<void>;
  readonly options: Pick<RunOptions, 'order' | 'signal'>;
  /** Fires when the engine is closed. */
  readonly closed: AbortSignal;
  /** The results of rows that the run does not compute: they were refused, or are equal to others. */
  readonly answered$: Observable<Ordered<Result>>;
  /** To be called with every result that is there, before it waits for its turn: what it takes counts from then on. */
  readonly answered: (result: Ordered<Result>) => void;
  /** To be called with the place of every result that the consumer has taken: until then it counts as in flight. */
  readonly delivered: (sequence: number) => void;
}

/** A source that can generate: an engine. */
export interface GenerationSource {
  generate(rows: AsyncIterable<RowInput>, options?: RunOptions): AsyncIterable<RowResult>;
}

/**
 * The results of a run, pulled: its rows are read as places come free, and a consumer that stops taking results stops
 * admission. The run begins with the first `next`, and ends at once with `return`.
 */
export interface RunResults<Result> extends AsyncGenerator<Result, void, undefined> {
  /**
   * The run's figures, once it is over, also where its consumer has left before the end. Rejects with what the
   * iteration throws; nobody has to look at it.
   */
  readonly stats: Promise<RunStats>;
  /**
   * Views on the run while it is under way, ten a second at most, and one at its end. Completes with the run, however
   * that ends: errors are the iteration's.
   */
  readonly progress$: Observable<Progress>;
}

/** Something that has come of a row: more of its answer, or its result. */
export type RowEvent<Result = RowResult> =
  { readonly type: 'delta'; readonly delta: RowDelta } | { readonly type: 'result'; readonly result: Result };

/** The results of a run that generates, and what its answers grow by before. */
export interface GeneratedResults<Result> extends RunResults<Result> {
  /**
   * The pieces by which answers grow, while somebody iterates; to be subscribed to before that. Nobody waits for who
   * subscribes. Completes with the run, however that ends.
   */
  readonly deltas$: Observable<RowDelta>;
  /**
   * Results and, before each, the deltas of its row, pulled; in the place of iterating over the results. Deltas of a
   * row that wait to be taken are put together, so a consumer that is slow holds up its own call, and gets what there
   * is in fewer pieces.
   */
  events(): AsyncGenerator<RowEvent<Result>, void, undefined>;
}
