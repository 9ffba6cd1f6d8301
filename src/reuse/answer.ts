import { isObject } from '../arguments/isObject.js';
import type { KeptAnswer } from '../Row.js';

type Entry = NonNullable<KeptAnswer['logprobs']>[number];
type TokenLogprob = Entry['top'][number];

/** Most lists and objects in what is parsed; see `hasFewContainers`. */
const MOST_CONTAINERS = 2 ** 20;
const [BRACKET, BRACE] = [0x5b, 0x7b];

/**
 * An answer as UTF-8 JSON. Each entry of `logprobs` is `[token, logprob, [token, logprob, …]]`, a fourth of what it would take with names. JSON has no -Infinity
 * and no -0: they are written as null and "-0". (Lone halves of surrogate pairs it escapes, so that they survive UTF-8.)
 * @returns undefined for what would not be read again
 */
export function answerBytes({ text, reasoning, tokens, finishReason, logprobs }: KeptAnswer): Buffer | undefined {
  const lists = logprobs?.map((entry) => [entry.token, wordFor(entry.logprob), entry.top.flatMap(({ token, logprob }) => [token, wordFor(logprob)])]);
  const bytes = Buffer.from(JSON.stringify({ text, reasoning, tokens, finishReason, logprobs: lists }));
  return hasFewContainers(bytes) ? bytes : undefined;
}

/** The other way. Undefined for bytes that are no answer: they may come from anybody. */
export function answerOf(bytes: Buffer): KeptAnswer | undefined {
  if (!hasFewContainers(bytes)) return undefined;
  let value: unknown;
  try {
    value = JSON.parse(bytes.toString('utf8'));
  } catch {
    return undefined;
  }
  if (!isObject(value)) return undefined;
  const { text, reasoning, tokens, finishReason, logprobs } = value;
  if (typeof text !== 'string' || !Array.isArray(tokens) || !tokens.every(isToken) || (finishReason !== 'stop' && finishReason !== 'length')) return undefined;
  if (reasoning !== undefined && typeof reasoning !== 'string') return undefined;
  const answer: KeptAnswer = { text, ...(reasoning !== undefined && { reasoning }), tokens, finishReason };
  if (logprobs === undefined) return answer;
  const entries = Array.isArray(logprobs) ? allOf(logprobs, entryOf) : undefined;
  return entries && { ...answer, logprobs: entries };
}

/**
 * JSON.parse makes up to a hundred bytes of heap from one bracket, and running out of heap ends the process. So brackets are counted first, also those inside
 * of strings: no answer has so many.
 */
function hasFewContainers(bytes: Buffer): boolean {
  if (bytes.length <= MOST_CONTAINERS) return true;
  let containers = 0;
  for (const byte of bytes) if (byte === BRACKET || byte === BRACE) containers += 1;
  return containers <= MOST_CONTAINERS;
}

function isToken(value: unknown): value is number {
  return typeof value === 'number' && Number.isSafeInteger(value) && value >= 0;
}

function wordFor(logprob: number): number | string | null {
  if (logprob === -Infinity) return null;
  return Object.is(logprob, -0) ? '-0' : logprob;
}

function numberOf(word: unknown): number | undefined {
  if (word === null) return -Infinity;
  return word === '-0' ? -0 : typeof word === 'number' && Number.isFinite(word) ? word : undefined;
}

function entryOf(list: unknown): Entry | undefined {
  if (!Array.isArray(list) || list.length !== 3) return undefined;
  const [token, word, words] = list as unknown[];
  const own = tokenLogprob(token, word);
  if (!own || !Array.isArray(words) || words.length % 2 !== 0) return undefined;
  const top: TokenLogprob[] = [];
  for (let at = 0; at < words.length; at += 2) {
    const other = tokenLogprob(words[at], words[at + 1]);
    if (!other) return undefined;
    top.push(other);
  }
  return { ...own, top };
}

function tokenLogprob(token: unknown, word: unknown): TokenLogprob | undefined {
  const logprob = numberOf(word);
  return isToken(token) && logprob !== undefined ? { token, logprob } : undefined;
}

function allOf<T>(values: readonly unknown[], of: (value: unknown) => T | undefined): T[] | undefined {
  const all: T[] = [];
  for (const value of values) {
    const one = of(value);
    if (one === undefined) return undefined;
    all.push(one);
  }
  return all;
}
