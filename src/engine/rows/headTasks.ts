import type { Work } from '../../collections/drained.js';
import { found } from '../../arguments/found.js';
import { RowError } from '../../errors/RowError.js';
import { UsageError } from '../../errors/UsageError.js';
import type { ClassifiedAnswer } from '../../KeptAnswer.js';
import type { SequenceClassifier } from '../../model/ModelSource.js';
import { isEncoder, type DecoderSpec } from '../../model/DecoderSpec.js';
import type { Tokenizer } from '../../model/Tokenizer.js';
import type { ClassifyOptions, RerankOptions } from '../../Results.js';
import type { Row, Truncation } from '../../Row.js';
import { checkedLabels, forTheRun } from '../../rows/completions.js';
import { readable } from '../../rows/readableRow.js';
import type { AnswerTask, PreparedAnswer } from './answerIntake.js';
import type { AnswerSetup } from './answerTasks.js';
import { labelProbabilities } from './answerTasks.js';
import { HeadedRow, type HeadInput, type Look, pooledLook } from './HeadedRow.js';
import { fittedPrompt, keptOf } from './truncate.js';
import { checkedTokens, countedTokens, type PromptTokens } from './promptTokens.js';
import { rowLimitWords } from './rowLimitWords.js';

/** The setup with which tasks of a model's own head are prepared. */
export interface HeadSetup extends AnswerSetup {
  readonly classifier: SequenceClassifier;
  readonly decoder: DecoderSpec;
}

/** The place that `{}` marks in a hypothesis. */
const PLACE = '{}';
const HYPOTHESIS = 'This example is {}.';
const MOST_DOCUMENTS = 1024;

/** A model's own labels; or, by one that tells what follows from a text, labels of the caller's. @throws UsageError */
export function headClassifyTask(options: ClassifyOptions, setup: HeadSetup): AnswerTask<'classify'> {
  const { classifier } = setup;
  const { labels: given, labelPrior, labelEnd, hypothesisTemplate } = options;
  if (labelPrior !== undefined || labelEnd === true)
    throw new UsageError('labelPrior, labelEnd: found one for a model with labels of its own, expected none');
  if (given === undefined) {
    if (hypothesisTemplate !== undefined)
      throw new UsageError('hypothesisTemplate: found one without labels, expected it with those of the run');
    return ownLabelsTask(options, setup);
  }
  const entailment = classifier.labels.findIndex((label) => /^entail/i.test(label));
  if (entailment < 0)
    throw new UsageError(
      `labels: found some for a model with labels of its own (${classifier.labels.slice(0, 3).join(', ')}), expected none, or a model that tells whether one text follows from another`,
    );
  return zeroShotTask(options, given, entailment, setup);
}

function ownLabelsTask(options: ClassifyOptions, setup: HeadSetup): AnswerTask<'classify'> {
  const { classifier, decoder, tokenizer, limits } = setup;
  const byTokens = isEncoder(decoder);
  return {
    kind: 'classify',
    *prepare(row) {
      if ((row.labels ?? undefined) !== undefined)
        throw new RowError('invalid-parameter', 'labels: found some, expected none: the model has labels of its own');
      const most = limits.contextTokens;
      const { tokens, truncated } = yield* fittedPrompt(row, options, tokenizer, limits, {
        most,
        room: most,
        byTokens,
      });
      return prepared<'classify'>([{ tokens }], truncated, ['own'], setup, ([logits]) =>
        answerOf(classifier, logits ?? new Float32Array()),
      );
    },
  };
}

/** The labels' probabilities: side by side, or of each by itself. */
function answerOf({ labels, independent }: SequenceClassifier, logits: Float32Array): ClassifiedAnswer {
  const own = Array.from(logits);
  if (labels.length > 1 && !independent) return labelProbabilities(labels, own);
  const probabilities = own.map(sigmoid);
  const best = probabilities.indexOf(Math.max(...probabilities));
  return {
    label: labels[best] ?? '',
    probability: probabilities[best] ?? NaN,
    probabilities: Object.fromEntries(labels.map((label, at) => [label, probabilities[at] ?? NaN])),
  };
}

function zeroShotTask(
  options: ClassifyOptions,
  given: NonNullable<ClassifyOptions['labels']>,
  entailment: number,
  setup: HeadSetup,
): AnswerTask<'classify'> {
  const { names, texts } = forTheRun(() => checkedLabels(given));
  const { hypothesisTemplate: template = HYPOTHESIS, truncate } = options;
  if (!template.includes(PLACE))
    throw new UsageError(`hypothesisTemplate: found ${found(template)}, expected a text with ${PLACE} for the label`);
  const hypotheses = texts.map((text) => template.replaceAll(PLACE, () => text));
  return {
    kind: 'classify',
    *prepare(row) {
      const text = textOf(row, 'prompt');
      const { inputs, truncated } = yield* pairsOf(
        hypotheses.map((hypothesis) => [text, hypothesis]),
        { truncate, cut: 'first', special: options.escapeSpecialTokens !== true },
        setup,
      );
      return prepared<'classify'>(inputs, truncated, ['zero-shot', names], setup, (outputs) =>
        labelProbabilities(
          names,
          outputs.map((logits) => logits[entailment] ?? NaN),
        ),
      );
    },
  };
}

/** How well documents answer a query, by a cross-encoder. @throws UsageError */
export function rerankTask(options: RerankOptions, setup: HeadSetup): AnswerTask<'rerank'> {
  const { classifier } = setup;
  if (classifier.labels.length !== 1)
    throw new UsageError(
      `rerank: found a model with ${classifier.labels.length} labels, expected one with a single score, a cross-encoder`,
    );
  return {
    kind: 'rerank',
    *prepare(row) {
      const query = textOf(row, 'query');
      const { inputs, truncated } = yield* pairsOf(
        documentsOf(row).map((document) => [query, document]),
        { truncate: options.truncate, cut: 'second', special: options.escapeSpecialTokens !== true },
        setup,
      );
      return prepared<'rerank'>(inputs, truncated, ['pairs'], setup, (outputs) => ({
        scores: outputs.map(([logit = NaN]) => ({ score: sigmoid(logit), logit })),
      }));
    },
  };
}

export function documentsOf(row: Row): readonly string[] {
  return readable(() => {
    const { document, documents } = row;
    const given = [document, documents].filter((value) => value !== undefined && value !== null);
    if (given.length !== 1)
      throw new RowError(
        'invalid-row',
        `found ${given.length === 0 ? 'neither document nor documents' : 'document and documents'}, expected one of them`,
      );
    const list: readonly unknown[] = Array.isArray(documents) ? (documents as unknown[]) : [document ?? documents];
    if (list.length === 0 || list.length > MOST_DOCUMENTS)
      throw new RowError('invalid-row', `documents: found ${list.length}, expected 1 to ${MOST_DOCUMENTS} texts`);
    return Array.from(list, (text, at) => {
      if (typeof text !== 'string')
        throw new RowError(
          'invalid-row',
          `${Array.isArray(documents) ? `documents[${at}]` : 'document'}: found ${found(text)}, expected a text`,
        );
      return text;
    });
  });
}

export function textOf(row: Row, name: 'query' | 'prompt'): string {
  const text: unknown = readable(() => row[name]);
  if (typeof text !== 'string')
    throw new RowError(
      'invalid-row',
      `${name}: found ${text === undefined ? 'nothing' : found(text)}, expected a text`,
    );
  return text;
}

/** Pairs of texts as the model takes them. @throws RowError for one that is too long, and that may not be cut */
function* pairsOf(
  pairs: readonly (readonly [string, string])[],
  how: { readonly truncate: Truncation | undefined; readonly cut: 'first' | 'second'; readonly special: boolean },
  { tokenizer, limits }: HeadSetup,
): Work<{ readonly inputs: readonly HeadInput[]; readonly truncated: number | undefined }> {
  const { truncate = 'off' } = how;
  const known = new Map<string, PromptTokens>();
  const most = truncate === 'off' || truncate === 'tail' ? limits.contextTokens : Infinity;
  const tokensOf = function* (text: string): Work<PromptTokens> {
    const before = known.get(text);
    if (before) return before;
    const made = yield* countedTokens(text, tokenizer, most, { specialTokens: false, parseSpecial: how.special });
    known.set(text, made);
    return made;
  };
  let cut = 0;
  const inputs: HeadInput[] = [];
  for (const [first, second] of pairs) {
    yield;
    const texts = [yield* tokensOf(first), yield* tokensOf(second)] as const;
    const tokens: [readonly number[], readonly number[]] = [texts[0].tokens, texts[1].tokens];
    const whole = joined(tokenizer, tokens);
    const count = texts.reduce((sum, each) => sum + each.count - each.tokens.length, whole.tokens.length);
    const over = count - limits.contextTokens;
    if (over <= 0) {
      inputs.push(whole);
      continue;
    }
    const at = how.cut === 'first' ? 0 : 1;
    if (truncate === 'off' || texts[at].count <= over)
      throw new RowError(
        'too-long',
        `a pair of texts has ${count} tokens, the model's context holds ${limits.contextTokens}`,
      );
    cut += over;
    tokens[at] = keptOf(tokens[at], texts[at].count - over, truncate);
    inputs.push(joined(tokenizer, tokens));
  }
  return { inputs, truncated: cut > 0 ? cut : undefined };
}

/** @throws RowError where the model has no tokenizer that pairs texts */
function joined(tokenizer: Tokenizer, [first, second]: readonly [readonly number[], readonly number[]]): HeadInput {
  if (!tokenizer.joinPair)
    throw new RowError(
      'invalid-row',
      "found a pair of texts, but the model's tokenizer does not say how they are joined",
    );
  return tokenizer.joinPair(first, second);
}

/** Prepares inputs whose ends say something. */
export function preparedInputs<Kind extends 'classify' | 'rerank'>(
  given: readonly HeadInput[],
  truncated: number | undefined,
  parameters: readonly unknown[],
  look: Look,
  { decoder, limits: { contextTokens, vocabularySize }, rowLimit }: Omit<HeadSetup, 'classifier'>,
  answer: (
    outputs: readonly Float32Array[],
  ) => Parameters<Parameters<PreparedAnswer<Kind>['computed']>[0]['answered']>[0],
): PreparedAnswer<Kind> {
  // A model without types of tokens, or with one, does not tell two texts apart.
  const typed = (decoder.embedding.tokenTypes ?? 0) > 1;
  const inputs = given.map(({ tokens, secondText }): HeadInput => (typed ? { tokens, secondText } : { tokens }));
  const limit = rowLimit();
  for (const { tokens } of inputs) {
    if (tokens.length === 0) throw new RowError('empty-prompt', 'found a text without tokens, expected at least one');
    if (tokens.length > contextTokens)
      throw new RowError('too-long', `the row has ${tokens.length} tokens, the model's context holds ${contextTokens}`);
    if (tokens.length > limit.tokens)
      throw new RowError('memory', `the row has ${tokens.length} tokens, ${rowLimitWords(limit)}`);
    // A tokenizer may know more tokens than the model.
    checkedTokens(tokens, vocabularySize);
  }
  const tokens = inputs.flatMap((input) => input.tokens);
  const lengths = inputs.map((input) => [input.tokens.length, input.secondText ?? null]);
  return {
    tokens,
    truncated,
    parameters: [...parameters, lengths],
    usage: { promptTokens: tokens.length, completionTokens: 0 },
    computed: (end) =>
      new HeadedRow(inputs, look, {
        found: (outputs) => end.answered(answer(outputs)),
        failed: (error) => end.failed(error),
      }),
  };
}

/** The same for the model's own head. */
function prepared<Kind extends 'classify' | 'rerank'>(
  given: readonly HeadInput[],
  truncated: number | undefined,
  parameters: readonly unknown[],
  setup: HeadSetup,
  answer: Parameters<typeof preparedInputs<Kind>>[5],
): PreparedAnswer<Kind> {
  const { pooling } = setup.classifier;
  return preparedInputs(given, truncated, parameters, pooledLook(pooling === 'cls' ? 'first' : pooling), setup, answer);
}

export function sigmoid(logit: number): number {
  return 1 / (1 + Math.exp(-logit));
}
