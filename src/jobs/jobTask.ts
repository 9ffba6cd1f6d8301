import { UsageError } from '../errors/UsageError.js';
import type {
  AnswerOptions,
  AnyResult,
  ClassifyOptions,
  EmbedOptions,
  JobTaskName,
  RerankOptions,
  ScoreOptions,
} from '../Results.js';
import type { GenerateOptions, RowInput } from '../Row.js';
import type { JobOptions, RowGenerator } from './JobOptions.js';
import { runFormat, type FormatOptions } from './output/writeOptions.js';
import { chunkOptions, promptOptions, resultOptions } from './record/jobRecord.js';

export interface JobTask {
  readonly name: JobTaskName;
  /** As far as jobs look at them themselves. */
  readonly options: AnswerOptions &
    FormatOptions &
    Pick<GenerateOptions, 'samples' | 'retries' | 'reasoning' | 'toolChoice' | 'logprobs' | 'now' | 'merge'> &
    Pick<EmbedOptions, 'encoding' | 'vectorType' | 'vectorRanges' | 'chunkTokens' | 'chunkOverlap'>;
  /** All options that decide a row's result, with their defaults. */
  readonly settled: Readonly<Record<string, unknown>>;
  /**
   * @param signal ends the run, in place of the caller's
   * @param now what the options say, or when the job began; null where that is not one time for all shards
   * @throws UsageError for an engine that cannot do it
   */
  answer(
    engine: RowGenerator,
    rows: AsyncIterable<RowInput>,
    signal: AbortSignal,
    now: Date | string | null,
  ): AsyncIterable<AnyResult>;
}

/** The task of a job's options. @throws UsageError where there are several */
export function jobTaskOf({ generate, classify, score, rerank, embed }: Pick<JobOptions, JobTaskName>): JobTask {
  const given = Object.entries({ generate, classify, score, rerank, embed })
    .filter(([, options]) => options !== undefined)
    .map(([name]) => name);
  if (given.length > 1)
    throw new UsageError(
      `found ${given.join(' and ')}, expected one of generate, classify, score, rerank and embed: a job has one task`,
    );
  if (classify)
    return {
      name: 'classify',
      options: classify,
      settled: classifySettings(classify),
      answer: (engine, rows, signal, now) => method(engine, 'classify')(rows, { ...classify, signal, now }),
    };
  if (score)
    return {
      name: 'score',
      options: score,
      settled: scoreSettings(score),
      answer: (engine, rows, signal, now) => method(engine, 'score')(rows, { ...score, signal, now }),
    };
  if (rerank)
    return {
      name: 'rerank',
      options: rerank,
      settled: rerankSettings(rerank),
      answer: (engine, rows, signal, now) => method(engine, 'rerank')(rows, { ...rerank, signal, now }),
    };
  if (embed)
    return {
      name: 'embed',
      options: embed,
      settled: embedSettings(embed),
      answer: (engine, rows, signal, now) => method(engine, 'embed')(rows, { ...embed, signal, now }),
    };
  const responseFormat = runFormat(generate ?? {});
  return {
    name: 'generate',
    options: generate ?? {},
    settled: resultOptions({ ...generate, ...(responseFormat && { responseFormat }) }),
    answer: (engine, rows, signal, now) => engine.generate(rows, { ...generate, signal, now }),
  };
}

/** Gives the options of a task, whichever it is: how prompts are made, when to stop. */
export function commonOptions({
  generate,
  classify,
  score,
  rerank,
  embed,
}: Pick<JobOptions, JobTaskName>): AnswerOptions {
  return generate ?? classify ?? score ?? rerank ?? embed ?? {};
}

function method<Name extends Exclude<JobTaskName, 'generate'>>(
  engine: RowGenerator,
  name: Name,
): NonNullable<RowGenerator[Name]> {
  const found = engine[name];
  if (!found)
    throw new UsageError(
      `engine: found one without a method ${name}, expected an Engine, or an object that does it as one`,
    );
  return found.bind(engine) as NonNullable<RowGenerator[Name]>;
}

/**
 * The version of what answers about labels and completions mean: to be raised when these get other tokens, or a prior
 * is found out otherwise. 2: they have no blank of the tokenizer's own before them, and a prior's prompt is made as a
 * row's is.
 */
const ANSWERS_VERSION = 2;

function rerankSettings({ instruction, ...options }: RerankOptions): JobTask['settled'] {
  return { task: 'rerank', ...(instruction !== undefined && { instruction }), ...common(options) };
}

function classifySettings({
  labels,
  labelEnd = false,
  labelPrior,
  hypothesisTemplate,
  ...options
}: ClassifyOptions): JobTask['settled'] {
  return {
    task: 'classify',
    answers: ANSWERS_VERSION,
    labels: labels ?? null,
    labelEnd,
    labelPrior: labelPrior ?? null,
    ...(hypothesisTemplate !== undefined && { hypothesisTemplate }),
    ...common(options),
  };
}

function scoreSettings({
  completions,
  completionEnd = false,
  tokenLogprobs = false,
  ...options
}: ScoreOptions): JobTask['settled'] {
  return {
    task: 'score',
    answers: ANSWERS_VERSION,
    completions: completions ?? null,
    completionEnd,
    tokenLogprobs,
    ...common(options),
  };
}

function embedSettings({
  pooling = 'auto',
  promptName,
  dimensions,
  normalize = true,
  encoding = 'float',
  vectorType = 'float32',
  vectorRanges,
  chunkTokens,
  chunkOverlap,
  ...options
}: EmbedOptions): JobTask['settled'] {
  return {
    task: 'embed',
    pooling,
    dimensions: dimensions ?? null,
    normalize,
    encoding,
    ...(vectorType !== 'float32' && { vectorType }),
    ...(vectorRanges && { vectorRanges }),
    ...(promptName !== undefined && { promptName }),
    ...chunkOptions({
      ...(chunkTokens !== undefined && { chunkTokens }),
      ...(chunkOverlap !== undefined && { chunkOverlap }),
    }),
    ...common(options),
  };
}

function common(options: AnswerOptions): JobTask['settled'] {
  return { escapeSpecialTokens: options.escapeSpecialTokens ?? false, ...promptOptions(options) };
}
