import type { Observable } from 'rxjs';
import { madeOf } from '../../collections/cancellable.js';
import { UsageError } from '../../errors/UsageError.js';
import type { ModelSource } from '../../model/ModelSource.js';
import type { AnswerOptions, EmbedOptions, ResultBase, ScoreResult } from '../../Results.js';
import type { RowInput } from '../../Row.js';
import type { RunRecorder } from '../execution/RunRecorder.js';
import type { RunRow } from '../execution/RunRow.js';
import type { Ordered } from './ActiveRow.js';
import { answerIntake, type AnswerTask } from './answerIntake.js';
import { classifyTask, embedTask, scoreTask, type AnswerSetup } from './answerTasks.js';
import type { AnswerKind, Answers } from './Answers.js';
import { checkAnswerOptions } from './checkAnswerOptions.js';
import type { Composition, Generation } from './Generation.js';
import type { InFlight } from './InFlight.js';
import { labelPriorOf } from './labelPrior.js';
import { SharedAnswers } from './SharedAnswers.js';

/** Makes rows of a run of an input. */
export type ReadOfRun<Result> = (
  inFlight: InFlight,
  recorder: RunRecorder,
) => { readonly source: AsyncIterator<RunRow<Ordered<Result>>>; readonly answered$: Observable<Ordered<Result>> };

/** What runs of answers need of their engine. */
export interface AnswerHost extends AnswerSetup {
  readonly source: ModelSource;
  /** The engine's, as one word: answers are kept under it. */
  readonly resultIdentity: string;
  /** @throws UsageError where the engine cannot run them, or not any more */
  check(options: AnswerOptions & Composition): void;
  /** A run of its own. */
  readonly score: (rows: readonly RowInput[], options: Answers['score']['options']) => AsyncIterable<ScoreResult>;
  composed<Result extends ResultBase>(
    options: AnswerOptions & Composition,
    read: ReadOfRun<Result>,
  ): Generation<Result>;
}

type Rows = AsyncIterable<RowInput> | Iterable<RowInput>;

/** The runs of an engine that classify, score or embed rows. */
export class AnswerRuns {
  constructor(private readonly host: AnswerHost) {}

  /**
   * All that can be refused is refused now; nothing else happens before rows are given.
   * @param callbacks in the place of the options' own
   * @throws UsageError
   */
  prepared<Kind extends AnswerKind>(
    kind: Kind,
    options: Answers[Kind]['options'],
    callbacks: Pick<AnswerOptions, 'onStats' | 'onProgress'>,
  ): (rows: Rows) => Generation<Answers[Kind]['result']> {
    checkAnswerOptions(kind, options);
    this.host.check(options);
    return this.of(kind, { ...options, ...callbacks, now: options.now === undefined ? new Date() : options.now }) as (
      rows: Rows,
    ) => Generation<Answers[Kind]['result']>;
  }

  private of(
    kind: AnswerKind,
    options: Answers[AnswerKind]['options'],
  ): (rows: Rows) => Generation<Answers[AnswerKind]['result']> {
    switch (kind) {
      case 'classify':
        return this.answered(
          options,
          classifyTask(options, this.host, (labels, text, way) =>
            labelPriorOf(labels, text, way, options, this.host.score),
          ),
        );
      case 'score':
        return this.answered(options, scoreTask(options, this.host));
      case 'embed':
        return this.answered(options, this.embedTask(options));
    }
  }

  private answered<Kind extends AnswerKind>(
    options: AnswerOptions & Composition,
    task: AnswerTask<Kind>,
  ): (rows: Rows) => Generation<Answers[Kind]['result']> {
    const { resultIdentity } = this.host;
    return (rows) =>
      this.host.composed(options, (inFlight, recorder) => {
        const answers = SharedAnswers.of<Kind, Answers[Kind]['result']>(task.kind, recorder, options);
        return {
          source: madeOf(rows, (input, ended) =>
            answerIntake(input, { task, inFlight, recorder, answers, resultIdentity, ended }),
          ),
          answered$: answers.results$,
        };
      });
  }

  private embedTask(options: EmbedOptions): ReturnType<typeof embedTask> {
    const {
      pooling: said = 'last',
      decoder: { hiddenSize },
    } = this.host.source;
    const { pooling = 'auto', dimensions = hiddenSize } = options;
    if (dimensions > hiddenSize)
      throw new UsageError(
        `dimensions: found ${dimensions}, expected a whole number from 1 to ${hiddenSize}, those that the model has`,
      );
    const pooled = pooling === 'auto' ? said : pooling;
    if (typeof pooled === 'object')
      throw new UsageError(
        `pooling: the model's files say ${pooled.unknown}, expected last, mean or cls: say which to take`,
      );
    return embedTask({ ...options, dimensions }, hiddenSize, pooled === 'cls' ? 'first' : pooled, this.host);
  }
}
