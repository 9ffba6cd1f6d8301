import { found } from '../../arguments/found.js';
import { isWithin, rangeWords, wholeRange, type NumberRange } from '../../arguments/NumberRange.js';
import { membersOf } from '../../arguments/membersOf.js';
import { RowError } from '../../errors/RowError.js';
import type { Tokenizer } from '../../model/Tokenizer.js';
import type { GenerateOptions, Row, SamplingOptions } from '../../Row.js';
import { ROW_LIMITS } from '../../model/files/limits.js';
import { promptField } from '../../rows/promptField.js';
import { SAMPLES } from '../../rows/rowFields.js';
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
  /** Which samples are wanted; undefined where none were asked for. */
  readonly samples: readonly number[] | undefined;
}

/** What rows are checked against. */
export interface RowLimits {
  readonly contextTokens: number;
  readonly vocabularySize: number;
}

type NumericOption = Exclude<keyof SamplingOptions, 'stop'>;
/** What each may be, wherever it is said: in a row, an option or a flag. */
export const SAMPLING_RANGES: Readonly<Record<NumericOption, NumberRange & { readonly fallback: number }>> = {
  maxNewTokens: { ...wholeRange(1, 2 ** 31 - 1), fallback: 128 },
  temperature: { least: 0, most: 1e6, fallback: 0 },
  topP: { least: 0, above: true, most: 1, fallback: 1 },
  topK: { ...wholeRange(0, 2 ** 31 - 1), fallback: 0 },
  minP: { least: 0, most: 1, fallback: 0 },
  repetitionPenalty: { least: 0, above: true, most: 1e6, fallback: 1 },
  seed: { ...wholeRange(0), fallback: 0 },
  samples: { ...SAMPLES, fallback: 1 },
};

/** The value of a sampling option, checked; the row's own, else the run's, else the default. @throws RowError */
function setting(name: NumericOption, row: SamplingOptions, defaults: SamplingOptions): number {
  const range = SAMPLING_RANGES[name];
  const value: unknown = row[name] ?? defaults[name] ?? range.fallback;
  if (!isWithin(value, range)) throw new RowError('invalid-parameter', `${name}: found ${found(value)}, expected ${rangeWords(range, value)}`);
  return value;
}

/** Checks the options of a whole run once. @throws RowError naming the option */
export function checkSampling(options: SamplingOptions): void {
  for (const name of Object.keys(SAMPLING_RANGES) as NumericOption[]) setting(name, {}, options);
  stopStrings(options.stop);
}

/** Checks a row and encodes its prompt. @throws RowError */
export function prepareRow(row: Row, options: GenerateOptions, tokenizer: Tokenizer, limits: RowLimits): PreparedRow {
  const seed = setting('seed', row, options);
  const asked = setting('maxNewTokens', row, options);
  const samples = row.samples ?? options.samples;
  const settled = {
    temperature: setting('temperature', row, options),
    topP: setting('topP', row, options),
    topK: Math.min(setting('topK', row, options), limits.vocabularySize),
    minP: setting('minP', row, options),
    repetitionPenalty: setting('repetitionPenalty', row, options),
    // 53 bits folded into the generator's 32; small seeds stay what they are.
    seed: (seed ^ Math.floor(seed / 2 ** 32)) >>> 0,
    stop: stopStrings(row.stop ?? options.stop),
    samples: samples === undefined ? undefined : wantedSamples(row.wantedSamples, setting('samples', row, options)),
  };
  const tokens = promptTokens(row, options, tokenizer, limits);
  // The last sampled token is never computed, so it needs no position.
  const room = limits.contextTokens - tokens.length + 1;
  if (room < 1) {
    throw new RowError('too-long', `the prompt has ${tokens.length} tokens, the model's context holds ${limits.contextTokens}`);
  }
  return { ...settled, tokens, maxNewTokens: Math.min(asked, room) };
}

/** Distinct numbers below the count, in order. @throws RowError */
function wantedSamples(wanted: unknown, count: number): readonly number[] {
  if (wanted === undefined || wanted === null) return Array.from({ length: count }, (_, sample) => sample);
  return readable(() => {
    const given = Array.isArray(wanted) ? [...new Set(wanted as unknown[])] : [undefined];
    if (given.every((sample): sample is number => isWithin(sample, wholeRange(0, count - 1)))) return given.toSorted((a, b) => a - b);
    throw new RowError('invalid-parameter', `wantedSamples: found ${found(wanted)}, expected an array of whole numbers from 0 to ${count - 1}`);
  });
}

function promptTokens(row: Row, options: GenerateOptions, tokenizer: Tokenizer, limits: RowLimits): readonly number[] {
  const field = promptField(row);
  const parseSpecial = options.escapeSpecialTokens !== true;
  if (field === 'tokens') return checkedTokens(row.tokens, limits.vocabularySize);
  let tokens: number[];
  if (field === 'messages') {
    const messages = checkedMessages(row.messages);
    checkUnits(messages.reduce((sum, { content }) => sum + content.length, 0), limits);
    tokens = tokenizer.encodeChat(messages, { parseSpecial });
  } else {
    const prompt: unknown = row.prompt;
    if (typeof prompt !== 'string') throw new RowError('invalid-row', `prompt: found ${found(prompt)}, expected a string`);
    checkUnits(prompt.length, limits);
    tokens = isChat(row, options, tokenizer) ? tokenizer.encodeChat([{ role: 'user', content: prompt }], { parseSpecial }) : tokenizer.encode(prompt, { parseSpecial });
  }
  if (tokens.length === 0) throw new RowError('empty-prompt', 'the prompt has no tokens, and the model has no begin token to start from');
  return checkedTokens(tokens, limits.vocabularySize);
}

/** Whether a row's text is a user's message. @throws RowError */
function isChat(row: Row, options: GenerateOptions, { hasChatTemplate }: Tokenizer): boolean {
  const chat: unknown = 'chat' in row ? row.chat : undefined;
  if (chat === undefined || chat === null || chat === 'auto') return options.chat ?? (chat === 'auto' && hasChatTemplate);
  if (typeof chat !== 'boolean') throw new RowError('invalid-row', `chat: found ${found(chat)}, expected true, false or auto`);
  return chat;
}

/** Text far beyond the model's context is refused before it takes seconds to find out how far. @throws RowError */
function checkUnits(units: number, { contextTokens }: RowLimits): void {
  const most = 2 ** 20 + ROW_LIMITS.textUnitsPerContextToken * contextTokens;
  if (units <= most) return;
  throw new RowError('too-long', `the prompt has ${units} UTF-16 units, the model's context holds ${contextTokens} tokens: expected at most ${most} units`);
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
