import type { Observable } from 'rxjs';
import { found } from '../../arguments/found.js';
import { madeOf } from '../../collections/cancellable.js';
import { UsageError } from '../../errors/UsageError.js';
import { isEncoder, pooledWidth } from '../../model/DecoderSpec.js';
import { FILE_POOLINGS, type ModelSource } from '../../model/ModelSource.js';
import type { AnswerOptions, EmbedOptions, RerankOptions, ResultBase, ScoreResult } from '../../Results.js';
import type { RowInput } from '../../Row.js';
import type { RunRecorder } from '../execution/RunRecorder.js';
import type { RunRow } from '../execution/RunRow.js';
import type { Ordered } from './ActiveRow.js';
import { answerIntake, type AnswerTask } from './answerIntake.js';
import { classifyTask, embedTask, scoreTask, type AnswerSetup } from './answerTasks.js';
import type { AnswerKind, Answers } from './Answers.js';
import { checkAnswerOptions } from './checkAnswerOptions.js';
import type { Composition, Generation } from './Generation.js';
import { headClassifyTask, rerankTask, type HeadSetup } from './headTasks.js';
import type { InFlight } from './InFlight.js';
import { judgedTask, judges } from './judgedTask.js';
import { labelPriorOf } from './labelPrior.js';
import { SharedAnswers, type LastAnswers } from './SharedAnswers.js';

/** Makes rows of a run of an input. */
export type ReadOfRun<Result> = (
  inFlight: InFlight,
  recorder: RunRecorder,
  lastAnswers?: LastAnswers,
) => { readonly source: AsyncIterator<RunRow<Ordered<Result>>>; readonly answered$: Observable<Ordered<Result>> };

/** The parts of their engine that runs of answers need. */
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

/** The setup with which tasks are made. */
type TaskHost = AnswerSetup & Pick<AnswerHost, 'source'>;

type Rows = AsyncIterable<RowInput> | Iterable<RowInput>;

/** Finds the text that goes before each prompt. @throws UsageError for a name that the model's files do not have */
function embeddingPrompt({ prompts }: ModelSource, name = prompts?.usual): string {
  if (name === undefined) return '';
  const text = prompts && Object.hasOwn(prompts.texts, name) ? prompts.texts[name] : undefined;
  if (text !== undefined) return text;
  const names = Object.keys(prompts?.texts ?? {});
  throw new UsageError(
    `promptName: found ${found(name)}, expected ${names.length === 0 ? "none: the model's files have no prompts" : `one that the model's files have: ${names.join(', ')}`}`,
  );
}

/** A template has it, too. */
function withPrefix<Options extends EmbedOptions>(options: Options, prefix: string): Options {
  const { promptTemplate } = options;
  return promptTemplate === undefined
    ? options
    : { ...options, promptTemplate: prefix.replaceAll('{{', '{{{{') + promptTemplate };
}

/** @throws UsageError for what a model's head would be needed for, which an encoder does not have */
export function refuseEncoder(what: string, { decoder, classifier }: ModelSource): void {
  if (isEncoder(decoder))
    throw new UsageError(
      `${what}: found a model of the family ${decoder.family}, an encoder, expected one that generates: an encoder embeds`,
    );
  if (classifier)
    throw new UsageError(
      `${what}: found a model with a head that classifies (${classifier.labels.slice(0, 3).join(', ')}), expected one that generates: rerank and classify use this one`,
    );
}

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
    const task = answerTaskOf(kind, options, this.host, (labels, text, way) =>
      labelPriorOf(labels, text, way, options, this.host.score),
    );
    return this.answered(options, task);
  }

  private answered<Kind extends AnswerKind>(
    options: AnswerOptions & Composition,
    task: AnswerTask<Kind>,
  ): (rows: Rows) => Generation<Answers[Kind]['result']> {
    const { resultIdentity } = this.host;
    return (rows) =>
      this.host.composed(options, (inFlight, recorder, lastAnswers) => {
        const answers = SharedAnswers.of<Kind, Answers[Kind]['result']>(task.kind, recorder, options, lastAnswers);
        return {
          source: madeOf(rows, (input, ended) =>
            answerIntake(input, { task, inFlight, recorder, answers, resultIdentity, ended }),
          ),
          answered$: answers.results$,
        };
      });
  }
}

/**
 * Makes the task that is asked of rows, by its name.
 * @param priorOf as in `classifyTask`
 * @throws UsageError
 */
export function answerTaskOf<Kind extends AnswerKind>(
  kind: Kind,
  options: Answers[Kind]['options'],
  host: TaskHost,
  priorOf: Parameters<typeof classifyTask>[2],
): AnswerTask<Kind> {
  const tasks: { readonly [Each in AnswerKind]: () => AnswerTask<Each> } = {
    classify: () => {
      if (host.source.classifier) return headClassifyTask(options, headSetup('classify', host));
      refuseEncoder('classify', host.source);
      return classifyTask(options, host, priorOf);
    },
    score: () => {
      refuseEncoder('score', host.source);
      return scoreTask(options, host);
    },
    rerank: () => rerankOf(options, host),
    embed: () => pooledTask(options, host),
  };
  return tasks[kind]();
}

/** @throws UsageError for a model that scores no pairs of texts */
function rerankOf(options: RerankOptions, host: TaskHost): AnswerTask<'rerank'> {
  const { decoder, classifier } = host.source;
  if (judges(decoder, classifier)) return judgedTask(options, { ...host, decoder, classifier });
  if (options.instruction !== undefined)
    throw new UsageError('instruction: found one for a cross-encoder, expected none: it is told nothing');
  return rerankTask(options, headSetup('rerank', host));
}

/** @throws UsageError for a model without a head that classifies */
function headSetup(what: string, { source, tokenizer, limits, rowLimit }: TaskHost): HeadSetup {
  const { classifier, decoder } = source;
  if (!classifier)
    throw new UsageError(
      `${what}: found a model of the family ${decoder.family} without a head that classifies, expected one with such a head (ForSequenceClassification)${what === 'rerank' ? ', or Qwen3-Reranker' : ''}`,
    );
  return { classifier, decoder, tokenizer, limits, rowLimit };
}

/** @throws UsageError for a model that embeds nothing, a pooling or a number of dimensions that it has not */
function pooledTask(options: EmbedOptions, host: TaskHost): AnswerTask<'embed'> {
  const { decoder, classifier } = host.source;
  const { pooling: said = isEncoder(decoder) ? 'mean' : 'last' } = host.source;
  if (classifier)
    throw new UsageError(
      `embed: found a model that classifies texts (${classifier.labels.slice(0, 3).join(', ')}), expected one that embeds them: rerank and classify use this one`,
    );
  const prefix = embeddingPrompt(host.source, options.promptName);
  const width = pooledWidth(decoder);
  const { pooling = 'auto', dimensions = width } = options;
  if (dimensions > width)
    throw new UsageError(
      `dimensions: found ${dimensions}, expected a whole number from 1 to ${width}, those that the model has`,
    );
  const pooled = pooling === 'auto' ? said : pooling;
  if (typeof pooled === 'object')
    throw new UsageError(
      `pooling: the model's files say ${pooled.unknown}, expected ${FILE_POOLINGS.join(', ')}: say which to take`,
    );
  return embedTask(
    withPrefix({ ...options, dimensions }, prefix),
    prefix,
    decoder,
    pooled === 'cls' ? 'first' : pooled,
    host,
  );
}
