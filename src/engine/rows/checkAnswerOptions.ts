import { wrongRanges } from '../../rows/embeddings.js';
import { checkMembers, type Check } from '../../arguments/checkMembers.js';
import { checkBoolean } from '../../arguments/checks.js';
import { found } from '../../arguments/found.js';
import { oneOf, whole } from '../../arguments/memberChecks.js';
import { UsageError } from '../../errors/UsageError.js';
import { checkChunkOptions } from '../../rows/chunks.js';
import { EMBEDDING_ENCODINGS, POOLINGS, VECTOR_TYPES } from '../../Results.js';
import type { AnswerKind, Answers } from './Answers.js';
import { RUN_CHECKS } from './checkRunOptions.js';

type Checks<Kind extends AnswerKind> = Readonly<Record<keyof Answers[Kind]['options'], Check>>;

const {
  escapeSpecialTokens,
  promptTemplate,
  system,
  chat,
  truncate,
  tools,
  templateArgs,
  now,
  order,
  rowTimeout,
  reuse,
  signal,
  onProgress,
  onStats,
  onTrace,
  schedule,
  pipeline,
  window,
  sharePrefixes,
  lookAhead,
  priority,
  peers,
  microBatches,
} = RUN_CHECKS;
const RUN = {
  order,
  rowTimeout,
  reuse,
  signal,
  onProgress,
  onStats,
  onTrace,
  schedule,
  pipeline,
  window,
  sharePrefixes,
  lookAhead,
  priority,
  peers,
  microBatches,
};
const COMMON = {
  ...RUN,
  escapeSpecialTokens,
  promptTemplate,
  system,
  chat,
  truncate,
  tools,
  templateArgs,
  now,
};

/** Checks for an array; the texts in it are looked at when they become tokens. */
const texts: Check = (name, value) => {
  if (!Array.isArray(value)) throw new UsageError(`${name}: found ${found(value)}, expected an array of texts`);
};

const checkRanges: Check = (name, value) => {
  const wrong = wrongRanges(value);
  if (wrong !== undefined) throw new UsageError(`${name}: found ${wrong}`);
};

const CHECKS: { readonly [Kind in AnswerKind]: Checks<Kind> } = {
  classify: { ...COMMON, hypothesisTemplate: checkText, labels: texts, labelEnd: checkBoolean, labelPrior: checkPrior },
  score: { ...COMMON, completions: texts, completionEnd: checkBoolean, tokenLogprobs: checkBoolean },
  rerank: {
    ...RUN,
    instruction: checkText,
    escapeSpecialTokens,
    truncate,
    now,
  },
  embed: {
    ...COMMON,
    promptName: checkText,
    pooling: oneOf(...POOLINGS),
    dimensions: whole(1),
    normalize: checkBoolean,
    encoding: oneOf(...EMBEDDING_ENCODINGS),
    vectorType: oneOf(...VECTOR_TYPES),
    vectorRanges: checkRanges,
    chunkTokens: whole(1),
    chunkOverlap: whole(0),
  },
};

/**
 * Checks the options of a run that generates nothing before anything is read. @throws UsageError naming the option,
 * what was found and what was expected
 */
export function checkAnswerOptions(kind: AnswerKind, options: unknown): void {
  checkMembers('options', options, CHECKS[kind]);
  if (kind === 'embed') checkChunkOptions(options);
  const { labels, labelPrior, peers: others } = options as Answers['classify']['options'];
  if (labelPrior === undefined) return;
  if (labels === undefined)
    throw new UsageError('labelPrior: found one without labels, expected it with those of the run');
  if (typeof labelPrior === 'string' && others)
    throw new UsageError(
      'labelPrior: found a text where peers have layers of the model, expected numbers: its run would need peers of its own',
    );
  if (typeof labelPrior !== 'string' && labelPrior.length !== labels.length) {
    throw new UsageError(`labelPrior: found ${labelPrior.length} numbers, expected ${labels.length}, one a label`);
  }
}

function checkText(name: string, value: unknown): void {
  if (typeof value !== 'string') throw new UsageError(`${name}: found ${found(value)}, expected a text`);
}

function checkPrior(name: string, value: unknown): void {
  if (typeof value === 'string') {
    if (value !== '') return;
    throw new UsageError(`${name}: found an empty text, expected one that says nothing, such as N/A, or numbers`);
  }
  if (!Array.isArray(value))
    throw new UsageError(`${name}: found ${found(value)}, expected a text, or a number above 0 for each label`);
  const wrong = value.findIndex((each: unknown) => typeof each !== 'number' || !Number.isFinite(each) || each <= 0);
  if (wrong >= 0) throw new UsageError(`${name}[${wrong}]: found ${found(value[wrong])}, expected a number above 0`);
}
