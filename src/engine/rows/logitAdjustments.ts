import type { Work } from '../../collections/drained.js';
import { found } from '../../arguments/found.js';
import { isObject } from '../../arguments/isObject.js';
import { isWithin, rangeWords, wholeRange, type NumberRange } from '../../arguments/NumberRange.js';
import { RowError } from '../../errors/RowError.js';
import { ROW_LIMITS } from '../../model/files/limits.js';
import type { Tokenizer } from '../../model/Tokenizer.js';
import type { SamplingOptions } from '../../Row.js';
import { readable } from '../../rows/readableRow.js';
import type { LogitAdjustments } from '../grid/Device.js';
import { encoded } from './promptTokens.js';

/** A bias of a token, as OpenAI bounds it. */
const BIAS: NumberRange = { least: -100, most: 100 };

/** The lists of a row's sampling options, checked, and still without a model. */
export interface TokenLists {
  readonly logitBias: ReadonlyMap<number, number>;
  readonly stopTokenIds: readonly number[];
  readonly badWords: readonly string[];
}

/** Checks what needs no model to be checked; null is as good as absent. @throws RowError naming the field */
export function tokenLists({
  logitBias,
  stopTokenIds,
  badWords,
}: {
  readonly [Name in 'logitBias' | 'stopTokenIds' | 'badWords']?: SamplingOptions[Name] | undefined;
}): TokenLists {
  return {
    logitBias: new Map(readable(() => biasEntries(logitBias ?? {}))),
    stopTokenIds: listOf('stopTokenIds', stopTokenIds, (name, id) => tokenId(name, id)),
    badWords: listOf('badWords', badWords, (name, word) => {
      if (typeof word === 'string' && word.length > 0 && word.length <= ROW_LIMITS.badWordUnits) return word;
      throw wrong(name, word, `a text of 1 to ${ROW_LIMITS.badWordUnits} units`);
    }),
  };
}

/** The settled options that change logits. */
export interface AdjustingOptions extends TokenLists {
  readonly presencePenalty: number;
  readonly frequencyPenalty: number;
  readonly minNewTokens: number;
}

/**
 * The changes of a row's logits that its options ask for; undefined where they ask for none. Stops on the way through
 * many words, or long ones.
 *
 * @param ends the tokens that end the row
 * @throws RowError for an id that the model has not, or a word of which no token is left
 */
export function* logitAdjustments(
  { presencePenalty, frequencyPenalty, minNewTokens, logitBias, badWords }: AdjustingOptions,
  ends: ReadonlySet<number>,
  tokenizer: Tokenizer,
  vocabularySize: number,
): Work<LogitAdjustments | undefined> {
  const biased = [...logitBias].filter(([, bias]) => bias !== 0);
  for (const [id] of biased) checkKnown(`logitBias[${id}]`, id, vocabularySize);
  if (presencePenalty === 0 && frequencyPenalty === 0 && minNewTokens === 0 && biased.length + badWords.length === 0)
    return undefined;
  const spelt: (readonly number[])[] = [];
  for (const [at, word] of badWords.entries()) {
    for (const spelling of yield* spellings(word, `badWords[${at}]`, tokenizer)) spelt.push(spelling);
    yield;
  }
  return {
    presencePenalty,
    frequencyPenalty,
    biasedTokens: biased.map(([id]) => id),
    biases: biased.map(([, bias]) => bias),
    minNewTokens,
    endTokens: minNewTokens === 0 ? [] : [...ends].filter((id) => id < vocabularySize),
    badWords: spelt,
  };
}

/** @throws RowError */
export function checkKnown(name: string, id: number, vocabularySize: number): void {
  if (id >= vocabularySize) throw wrong(name, id, `an id under ${vocabularySize}, the vocabulary`);
}

/** The tokens of a word where it begins a text and where it follows another word, as far as these differ. */
function* spellings(word: string, name: string, tokenizer: Tokenizer): Work<readonly (readonly number[])[]> {
  const all: (readonly number[])[] = [];
  for (const text of [word, ` ${word.trimStart()}`]) {
    const tokens = yield* encoded(text, tokenizer, { specialTokens: false, continues: true });
    if (tokens.length > 0) all.push(tokens);
  }
  if (all.length === 0) throw wrong(name, word, 'a text of which a token is left');
  return [...new Map(all.map((tokens) => [tokens.join(), tokens])).values()];
}

function biasEntries(given: unknown): [number, number][] {
  if (!isObject(given)) throw wrong('logitBias', given, 'an object from token ids to biases');
  const entries = Object.entries(given);
  checkCount('logitBias', entries.length);
  return entries.map(([key, bias]) => {
    const name = `logitBias[${JSON.stringify(key)}]`;
    if (!/^(0|[1-9]\d*)$/.test(key)) throw wrong('logitBias', key, 'token ids as keys');
    if (!isWithin(bias, BIAS)) throw wrong(name, bias, rangeWords(BIAS, bias));
    return [tokenId('logitBias', Number(key)), bias];
  });
}

function tokenId(name: string, id: unknown): number {
  const range = wholeRange(0, 2 ** 31 - 1);
  if (isWithin(id, range)) return id;
  throw wrong(name, id, 'a token id (a whole number)');
}

function listOf<Entry>(name: string, given: unknown, entry: (name: string, value: unknown) => Entry): readonly Entry[] {
  if (given === undefined || given === null) return [];
  return readable(() => {
    if (!Array.isArray(given)) throw wrong(name, given, 'a list');
    checkCount(name, given.length);
    return given.map((value: unknown, at) => entry(`${name}[${at}]`, value));
  });
}

function checkCount(name: string, count: number): void {
  if (count <= ROW_LIMITS.adjustments) return;
  throw new RowError('limit', `${name}: found ${count} entries, expected at most ${ROW_LIMITS.adjustments}`);
}

function wrong(name: string, value: unknown, expected: string): RowError {
  return new RowError('invalid-parameter', `${name}: found ${found(value)}, expected ${expected}`);
}
