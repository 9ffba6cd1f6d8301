import { foundInRow } from '../arguments/found.js';
import { wholeRange, type NumberRange } from '../arguments/NumberRange.js';
import type { SamplingOptions } from '../Row.js';
import { RowError } from '../errors/RowError.js';

/** Exactly one of them holds a row's prompt. */
export const PROMPTS = ['prompt', 'messages', 'tokens'] as const;

/** How a row's tokens are chosen, as far as a number says it. */
export const NUMBERS = [
  'maxNewTokens',
  'temperature',
  'topP',
  'topK',
  'minP',
  'repetitionPenalty',
  'presencePenalty',
  'frequencyPenalty',
  'minNewTokens',
  'seed',
  'samples',
  'retries',
  'retryTemperature',
] as const satisfies readonly (keyof SamplingOptions)[];

/** How they are chosen, as far as lists and biases say it: the engine looks at what they hold. */
export const TOKEN_LISTS = [
  'logitBias',
  'stopTokenIds',
  'badWords',
] as const satisfies readonly (keyof SamplingOptions)[];

/**
 * Lists that a row may want to be classified or scored by. Other rows may have fields of these names: they are carried
 * like any that are not ours.
 */
export const TEXT_LISTS = ['labels', 'completions'] as const;

/** Fields that a row may want to be ranked by, likewise. */
export const PAIRS = ['query', 'document', 'documents'] as const;

/** Answers that a row may ask for. */
export const SAMPLES = wholeRange(1, 2 ** 16);

/** Seconds that a row may be given. */
export const ROW_SECONDS: NumberRange = { least: 0, above: true, most: 1e9 };

/** Which field holds a row's prompt; null is as good as absent. @throws RowError unless it is exactly one */
export function promptField(
  row: Readonly<Partial<Record<(typeof PROMPTS)[number], unknown>>>,
): (typeof PROMPTS)[number] {
  const given = PROMPTS.filter((name) => row[name] !== undefined && row[name] !== null);
  const [only] = given;
  if (only !== undefined && given.length === 1) return only;
  const nulls = PROMPTS.filter((name) => row[name] === null);
  const none =
    nulls.length === 0
      ? 'none of them'
      : `none of them (${nulls.join(' and ')} ${nulls.length === 1 ? 'is' : 'are'} null)`;
  throw new RowError(
    'no-prompt',
    `found ${given.length === 0 ? none : given.join(' and ')}, expected exactly one of prompt, messages and tokens`,
  );
}

/** Null is as good as absent, as tables exported to JSON write it. */
export function isAbsent(value: unknown): value is undefined | null {
  return value === undefined || value === null;
}

export function wrongType(field: string, value: unknown, expected: string): RowError {
  return new RowError('invalid-row', `${field}: found ${foundInRow(value)}, expected ${expected}`);
}
