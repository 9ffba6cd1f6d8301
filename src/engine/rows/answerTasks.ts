import { drained, type Work } from '../../collections/drained.js';
import { found } from '../../arguments/found.js';
import { isWithin, wholeRange } from '../../arguments/NumberRange.js';
import { RowError } from '../../errors/RowError.js';
import { UsageError } from '../../errors/UsageError.js';
import type { ClassifiedAnswer, CompletionScore } from '../../KeptAnswer.js';
import type { AnswerOptions, ClassifyOptions, EmbedOptions, ResultBase, ScoreOptions } from '../../Results.js';
import { isEncoder, pooledWidth, type DecoderSpec } from '../../model/DecoderSpec.js';
import { ROW_LIMITS } from '../../model/files/limits.js';
import type { Row } from '../../Row.js';
import { encodedEmbedding } from '../../rows/embeddings.js';
import type { Pooling } from '../grid/Device.js';
import type { RowLimit } from '../memory/PagePool.js';
import type { AnswerTask, PreparedAnswer } from './answerIntake.js';
import { CompletedRow } from './CompletedRow.js';
import { checkedCompletions, checkedLabels, forTheRun } from '../../rows/completions.js';
import { completionTokens, type CompletionRules } from './completionTokens.js';
import { EmbeddedRow } from './EmbeddedRow.js';
import { LabelPriors, type PromptWay } from './labelPrior.js';
import { fittedPrompt, type FittedPrompt } from './truncate.js';
import { rowLimitWords } from './rowLimitWords.js';

/** The setup with which rows are prepared. */
export interface AnswerSetup extends Pick<CompletionRules, 'tokenizer' | 'limits'> {
  /** The longest row that the KV cache holds; it may become less. */
  readonly rowLimit: () => RowLimit;
}

/**
 * Labels, told apart by how likely they are after a row's prompt.
 * @param priorOf log-probabilities of labels after a prompt that says nothing, and is made in a row's way
 * @throws UsageError
 */
export function classifyTask(
  options: ClassifyOptions,
  setup: AnswerSetup,
  priorOf: (labels: readonly string[], text: string, way: PromptWay) => Promise<readonly number[]>,
): AnswerTask<'classify'> {
  const rules = { ...setup, escapeSpecialTokens: options.escapeSpecialTokens, end: options.labelEnd };
  const labels = scoredTexts('labels', options.labels, function* (given) {
    const checked = checkedLabels(given);
    return { ...checked, tokens: yield* completionTokens('labels', checked.texts, rules) };
  });
  const { labelPrior } = options;
  const given = typeof labelPrior === 'object' ? labelPrior.map(Math.log) : undefined;
  const priors =
    typeof labelPrior === 'string'
      ? new LabelPriors(options, setup.tokenizer, (way) => priorOf(labels.run?.texts ?? [], labelPrior, way))
      : undefined;
  return {
    kind: 'classify',
    *prepare(row) {
      const { names, texts, tokens } = yield* labels.of(row);
      if (labelPrior !== undefined && texts !== labels.run?.texts)
        throw new RowError(
          'invalid-parameter',
          'labels: found some of the row, expected those of the run, to which labelPrior belongs',
        );
      const { tokens: prompt, truncated } = yield* prompted(row, options, tokens, setup);
      checkLengths(prompt, tokens, setup);
      const prepared = (prior: readonly number[] | undefined): PreparedAnswer<'classify'> => ({
        tokens: prompt,
        truncated,
        parameters: [names, tokens, prior ?? null],
        usage: usageOf(prompt, tokens),
        computed: (end) =>
          new CompletedRow(
            prompt,
            tokens,
            {
              scored: (logprobs) =>
                end.answered(
                  labelProbabilities(
                    names,
                    logprobs.map((each, at) => sum(each) - (prior?.[at] ?? 0)),
                  ),
                ),
              failed: (error) => end.failed(error),
            },
            options.rowTimeout,
          ),
      });
      return priors ? priors.of(row).then(prepared) : prepared(given);
    },
  };
}

/** Completions, and how likely each is after a row's prompt. @throws UsageError */
export function scoreTask(options: ScoreOptions, setup: AnswerSetup): AnswerTask<'score'> {
  const rules = { ...setup, escapeSpecialTokens: options.escapeSpecialTokens, end: options.completionEnd };
  const completions = scoredTexts('completions', options.completions, function* (given) {
    return { tokens: yield* completionTokens('completions', checkedCompletions('completions', given), rules) };
  });
  const each = options.tokenLogprobs === true;
  return {
    kind: 'score',
    *prepare(row) {
      const { tokens } = yield* completions.of(row);
      const { tokens: prompt, truncated } = yield* prompted(row, options, tokens, setup);
      checkLengths(prompt, tokens, setup);
      const many = each ? sum(tokens.map(({ length }) => length)) : 0;
      if (many > ROW_LIMITS.logprobs)
        throw new RowError(
          'limit',
          `completions: found ${many} tokens, each with its log-probability, expected at most ${ROW_LIMITS.logprobs}: fewer completions in a row`,
        );
      return {
        tokens: prompt,
        truncated,
        parameters: [tokens, each],
        usage: usageOf(prompt, tokens),
        computed: (end) =>
          new CompletedRow(
            prompt,
            tokens,
            {
              scored: (logprobs) =>
                end.answered({ scores: logprobs.map((own, at) => scoreOf(tokens[at] ?? [], own, at, each)) }),
              failed: (error) => end.failed(error),
            },
            options.rowTimeout,
          ),
      };
    },
  };
}

/**
 * Hidden states as embeddings.
 * @param options with the number of dimensions of rows that say none
 * @param prefix what goes before each text that is a prompt
 */
export function embedTask(
  options: EmbedOptions & { readonly dimensions: number },
  prefix: string,
  decoder: DecoderSpec,
  pooling: Pooling,
  setup: AnswerSetup,
): AnswerTask<'embed'> {
  const { normalize = true, encoding = 'float', vectorType = 'float32', vectorRanges } = options;
  checkVectorType(options);
  const most = pooledWidth(decoder);
  return {
    kind: 'embed',
    *prepare(given) {
      const row =
        prefix === '' || typeof given.prompt !== 'string' ? given : { ...given, prompt: prefix + given.prompt };
      const dimensions = row.dimensions ?? options.dimensions;
      if (!isWithin(dimensions, wholeRange(1, most)))
        throw new RowError(
          'invalid-parameter',
          `dimensions: found ${found(dimensions)}, expected a whole number from 1 to ${most}, those that the model has`,
        );
      const { tokens, truncated } = yield* prompted(row, options, [], setup, isEncoder(decoder));
      checkLengths(tokens, [], setup);
      return {
        tokens,
        truncated,
        parameters: [
          pooling,
          dimensions,
          normalize,
          encoding,
          ...(vectorType === 'float32' ? [] : [vectorType, vectorRanges ?? null]),
        ],
        usage: usageOf(tokens, []),
        computed: (end) =>
          new EmbeddedRow(
            tokens,
            pooling,
            {
              embedded: (hidden) =>
                end.answered(
                  encodedEmbedding(hidden, {
                    dimensions,
                    normalize,
                    encoding,
                    vectorType,
                    ...(vectorRanges && { vectorRanges }),
                  }),
                ),
              failed: (error) => end.failed(error),
            },
            isEncoder(decoder) ? { shares: false } : {},
          ),
      };
    },
  };
}

/** @throws UsageError for ranges without a type that has them, and the other way round */
function checkVectorType({ vectorType = 'float32', vectorRanges, dimensions }: EmbedOptions): void {
  const ranged = vectorType === 'int8' || vectorType === 'uint8';
  if (vectorRanges !== undefined && !ranged)
    throw new UsageError(`vectorRanges: found some for ${vectorType}, expected them with vectorType int8 or uint8`);
  if (vectorRanges === undefined && vectorType === 'uint8')
    throw new UsageError('vectorType: found uint8 without vectorRanges, expected those, or int8');
  if (vectorRanges !== undefined && vectorRanges.min.length !== dimensions)
    throw new UsageError(
      `vectorRanges: found those of ${vectorRanges.min.length} dimensions, expected those of ${dimensions}`,
    );
}

/**
 * Reads the texts with which the run is to be scored, and each row: its own, else the run's. @throws UsageError for the
 * run's
 */
function scoredTexts<Scored>(
  name: 'labels' | 'completions',
  given: unknown,
  read: (given: unknown) => Work<Scored>,
): { readonly run: Scored | undefined; of(row: Row): Work<Scored> } {
  const run = given === undefined ? undefined : forTheRun(() => drained(read(given)));
  return {
    run,
    *of(row) {
      return (row[name] ?? undefined) === undefined && run ? run : yield* read(row[name]);
    },
  };
}

/** A row's prompt, of which as much is cut as has to be for what is to stand after it. @throws RowError */
function prompted(
  row: Row,
  options: AnswerOptions,
  completions: readonly (readonly number[])[],
  { tokenizer, limits }: AnswerSetup,
  byTokens = false,
): Work<FittedPrompt> {
  const most = limits.contextTokens - longestOf(completions) + 1;
  return fittedPrompt(row, options, tokenizer, limits, { most, room: most, byTokens });
}

function longestOf(completions: readonly (readonly number[])[]): number {
  return Math.max(1, ...completions.map((tokens) => tokens.length));
}

/** @throws RowError */
function checkLengths(
  prompt: readonly number[],
  completions: readonly (readonly number[])[],
  setup: AnswerSetup,
): void {
  checkRoomAfter(prompt, longestOf(completions), setup);
}

/** @param longest tokens of what is to stand after it, of which the last is never computed @throws RowError */
export function checkRoomAfter(
  prompt: readonly number[],
  longest: number,
  { limits: { contextTokens }, rowLimit }: Pick<AnswerSetup, 'limits' | 'rowLimit'>,
): void {
  const held = prompt.length + longest - 1;
  const what = `the prompt has ${prompt.length} tokens${longest > 1 ? `, and what is to stand after it ${longest}` : ''}`;
  if (held > contextTokens) throw new RowError('too-long', `${what}, the model's context holds ${contextTokens}`);
  const limit = rowLimit();
  if (held > limit.tokens) throw new RowError('memory', `${what}, ${rowLimitWords(limit)}`);
}

function scoreOf(
  tokens: readonly number[],
  logprobs: readonly number[],
  index: number,
  each: boolean,
): CompletionScore {
  const never = logprobs.findIndex((logprob) => !Number.isFinite(logprob));
  if (never >= 0)
    throw new RowError(
      'numeric',
      `completions[${index}]: the model gives token ${never} of it no probability at all: its log-likelihood is infinite`,
    );
  return {
    logprob: sum(logprobs),
    tokens: tokens.length,
    ...(each && { tokenLogprobs: tokens.map((token, at) => ({ token, logprob: logprobs[at] ?? NaN })) }),
  };
}

function usageOf(prompt: readonly number[], completions: readonly (readonly number[])[]): ResultBase['usage'] {
  return { promptTokens: prompt.length, completionTokens: sum(completions.map((tokens) => tokens.length)) };
}

function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0);
}

/**
 * Probabilities of labels from their log-likelihoods, normalised over them, and the most likely one; of equal ones the
 * first. Pure.
 * @param logprobs of each label, natural; minus infinity is one that is never chosen
 * @throws RowError where none has any probability
 */
export function labelProbabilities(labels: readonly string[], logprobs: readonly number[]): ClassifiedAnswer {
  const largest = Math.max(...logprobs);
  if (!Number.isFinite(largest))
    throw new RowError('numeric', 'the model gives none of the labels any probability at all');
  const weights = logprobs.map((logprob) => Math.exp(logprob - largest));
  const total = weights.reduce((sum, weight) => sum + weight, 0);
  const probabilities = weights.map((weight) => weight / total);
  const best = logprobs.indexOf(largest);
  return {
    label: labels[best] ?? '',
    probability: probabilities[best] ?? NaN,
    probabilities: Object.fromEntries(labels.map((label, at) => [label, probabilities[at] ?? NaN])),
  };
}
