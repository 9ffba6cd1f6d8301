import { foundJson } from '../../arguments/foundJson.js';
import { RowError } from '../../errors/RowError.js';
import type { Tokenizer } from '../../model/Tokenizer.js';
import type { GenerateOptions, Row, SamplingOptions } from '../../Row.js';

/** A row that has been checked and turned into tokens, with every parameter settled. */
export interface PreparedRow {
  readonly tokens: readonly number[];
  /** Most new tokens: what was asked for, or what the model's context leaves. */
  readonly maxNewTokens: number;
  readonly temperature: number;
  readonly topP: number;
  readonly topK: number;
  readonly minP: number;
  readonly repetitionPenalty: number;
  readonly seed: number;
  readonly stop: readonly string[];
}

/** What rows are checked against. */
export interface RowLimits {
  readonly contextTokens: number;
  readonly vocabularySize: number;
}

type NumericOption = Exclude<keyof SamplingOptions, 'stop'>;
interface Range {
  readonly fallback: number;
  readonly expected: string;
  readonly valid: (value: number) => boolean;
}
const whole = (least: number, most: number) => (value: number): boolean => Number.isSafeInteger(value) && value >= least && value <= most;

const RANGES: Readonly<Record<NumericOption, Range>> = {
  maxNewTokens: { fallback: 128, expected: 'a whole number of at least 1', valid: whole(1, 2 ** 31 - 1) },
  temperature: { fallback: 0, expected: 'a number of at least 0', valid: (value) => value >= 0 && value <= 1e6 },
  topP: { fallback: 1, expected: 'a number above 0 and at most 1', valid: (value) => value > 0 && value <= 1 },
  topK: { fallback: 0, expected: 'a whole number of at least 0', valid: whole(0, 2 ** 31 - 1) },
  minP: { fallback: 0, expected: 'a number from 0 to 1', valid: (value) => value >= 0 && value <= 1 },
  repetitionPenalty: { fallback: 1, expected: 'a number above 0', valid: (value) => value > 0 && value <= 1e6 },
  seed: { fallback: 0, expected: 'a whole number of at least 0', valid: whole(0, Number.MAX_SAFE_INTEGER) },
};

/** The value of a sampling option, checked; the row's own, else the run's, else the default. @throws RowError */
function setting(name: NumericOption, row: SamplingOptions, defaults: SamplingOptions): number {
  const { fallback, expected, valid } = RANGES[name];
  const value: unknown = row[name] ?? defaults[name] ?? fallback;
  if (typeof value !== 'number' || !valid(value)) {
    throw new RowError('invalid-parameter', `${name}: found ${foundJson(value)}, expected ${expected}`);
  }
  return value;
}

/** Checks the options of a whole run once. @throws RowError naming the option */
export function checkSampling(options: SamplingOptions): void {
  for (const name of Object.keys(RANGES) as NumericOption[]) setting(name, {}, options);
  stopStrings(options.stop);
}

/** Checks a row and encodes its prompt. @throws RowError */
export function prepareRow(row: Row, options: GenerateOptions, tokenizer: Tokenizer, limits: RowLimits): PreparedRow {
  const seed = setting('seed', row, options);
  const asked = setting('maxNewTokens', row, options);
  const settled = {
    temperature: setting('temperature', row, options),
    topP: setting('topP', row, options),
    topK: Math.min(setting('topK', row, options), limits.vocabularySize),
    minP: setting('minP', row, options),
    repetitionPenalty: setting('repetitionPenalty', row, options),
    // 53 bits folded into the generator's 32; small seeds stay what they are.
    seed: (seed ^ Math.floor(seed / 2 ** 32)) >>> 0,
    stop: stopStrings(row.stop ?? options.stop),
  };
  const tokens = promptTokens(row, options, tokenizer, limits);
  // The last sampled token is never computed, so it needs no position.
  const room = limits.contextTokens - tokens.length + 1;
  if (room < 1) {
    throw new RowError('too-long', `the prompt has ${tokens.length} tokens, the model's context holds ${limits.contextTokens}`);
  }
  return { ...settled, tokens, maxNewTokens: Math.min(asked, room) };
}

function promptTokens(row: Row, options: GenerateOptions, tokenizer: Tokenizer, limits: RowLimits): readonly number[] {
  const given = (['prompt', 'messages', 'tokens'] as const).filter((field) => row[field] !== undefined);
  if (given.length !== 1) {
    throw new RowError('no-prompt', `found ${given.length === 0 ? 'none' : given.join(' and ')} of prompt, messages, tokens, expected exactly one`);
  }
  const parseSpecial = options.escapeSpecialTokens !== true;
  if (row.tokens !== undefined) return checkedTokens(row.tokens, limits.vocabularySize);
  let tokens: number[];
  if (row.messages !== undefined) {
    tokens = tokenizer.encodeChat(checkedMessages(row.messages), { parseSpecial });
  } else {
    const prompt: unknown = row.prompt;
    if (typeof prompt !== 'string') throw new RowError('invalid-row', `prompt: found ${foundJson(prompt)}, expected a string`);
    tokens = tokenizer.encode(prompt, { parseSpecial });
  }
  if (tokens.length === 0) throw new RowError('empty-prompt', 'the prompt has no tokens, and the model has no begin token to start from');
  return checkedTokens(tokens, limits.vocabularySize);
}

/** @throws RowError */
export function checkedTokens(tokens: unknown, vocabularySize: number): readonly number[] {
  if (!Array.isArray(tokens)) throw new RowError('invalid-row', `tokens: found ${foundJson(tokens)}, expected an array of token ids`);
  if (tokens.length === 0) throw new RowError('empty-prompt', 'tokens: found an empty array, expected at least one token id');
  for (const token of tokens as unknown[]) {
    if (typeof token !== 'number' || !Number.isInteger(token) || token < 0 || token >= vocabularySize) {
      throw new RowError('token-out-of-range', `tokens: found ${foundJson(token)}, expected ids from 0 to ${vocabularySize - 1}`);
    }
  }
  return tokens as number[];
}

function checkedMessages(messages: unknown): { role: string; content: string }[] {
  if (!Array.isArray(messages) || messages.length === 0) {
    throw new RowError('invalid-row', `messages: found ${foundJson(messages)}, expected an array of at least one {role, content}`);
  }
  return messages.map((message: unknown, index) => {
    const { role, content } = (typeof message === 'object' && message !== null ? message : {}) as Record<string, unknown>;
    if (typeof role !== 'string' || typeof content !== 'string') {
      throw new RowError('invalid-row', `messages[${index}]: found ${foundJson(message)}, expected {role, content} with strings`);
    }
    return { role, content };
  });
}

function stopStrings(stop: unknown): readonly string[] {
  if (stop === undefined) return [];
  const list: unknown[] = Array.isArray(stop) ? stop : [stop];
  if (!list.every((text): text is string => typeof text === 'string' && text.length > 0)) {
    throw new RowError('invalid-parameter', `stop: found ${foundJson(stop)}, expected strings that are not empty`);
  }
  return list;
}
