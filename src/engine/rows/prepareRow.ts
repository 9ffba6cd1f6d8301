import { found } from '../../arguments/found.js';
import { membersOf } from '../../arguments/membersOf.js';
import { RowError } from '../../errors/RowError.js';
import type { Tokenizer } from '../../model/Tokenizer.js';
import type { GenerateOptions, Row, SamplingOptions } from '../../Row.js';
import { promptField } from '../../rows/promptField.js';
import { orRowError } from '../../rows/readableRow.js';

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
    throw new RowError('invalid-parameter', `${name}: found ${found(value)}, expected ${expected}`);
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
  const field = promptField(row);
  const parseSpecial = options.escapeSpecialTokens !== true;
  if (field === 'tokens') return checkedTokens(row.tokens, limits.vocabularySize);
  let tokens: number[];
  if (field === 'messages') {
    tokens = tokenizer.encodeChat(checkedMessages(row.messages), { parseSpecial });
  } else {
    const prompt: unknown = row.prompt;
    if (typeof prompt !== 'string') throw new RowError('invalid-row', `prompt: found ${found(prompt)}, expected a string`);
    tokens = tokenizer.encode(prompt, { parseSpecial });
  }
  if (tokens.length === 0) throw new RowError('empty-prompt', 'the prompt has no tokens, and the model has no begin token to start from');
  return checkedTokens(tokens, limits.vocabularySize);
}

/** A copy that nobody can change any more: a row waits for its turn, and its giver may fill the same array again. @throws RowError */
export function checkedTokens(tokens: unknown, vocabularySize: number): readonly number[] {
  return readable(() => {
    if (!Array.isArray(tokens)) throw new RowError('invalid-row', `tokens: found ${found(tokens)}, expected an array of token ids`);
    if (tokens.length === 0) throw new RowError('empty-prompt', 'tokens: found an empty array, expected at least one token id');
    return Array.from(tokens as unknown[], (token) => {
      if (typeof token !== 'number' || !Number.isInteger(token) || token < 0 || token >= vocabularySize) {
        throw new RowError('token-out-of-range', `tokens: found ${found(token)}, expected ids from 0 to ${vocabularySize - 1}`);
      }
      return token;
    });
  });
}

function checkedMessages(messages: unknown): { role: string; content: string }[] {
  return readable(() => {
    if (!Array.isArray(messages) || messages.length === 0) {
      throw new RowError('invalid-row', `messages: found ${found(messages)}, expected an array of at least one {role, content}`);
    }
    return [...(messages as unknown[])].map((message, index) => {
      const { role, content } = membersOf(message);
      if (typeof role !== 'string' || typeof content !== 'string') {
        throw new RowError('invalid-row', `messages[${index}]: found ${found(message)}, expected {role, content} with strings`);
      }
      return { role, content };
    });
  });
}

function stopStrings(stop: unknown): readonly string[] {
  if (stop === undefined || stop === null) return [];
  return readable(() =>
    (Array.isArray(stop) ? [...(stop as unknown[])] : [stop]).map((text, at) => {
      if (typeof text === 'string' && text.length > 0) return text;
      throw new RowError('invalid-parameter', `${Array.isArray(stop) ? `stop[${at}]` : 'stop'}: found ${found(text)}, expected a string that is not empty`);
    }),
  );
}

/** What lies deep in a row may be unreadable too. @throws RowError */
function readable<T>(read: () => T): T {
  try {
    return read();
  } catch (error) {
    throw orRowError(error);
  }
}
