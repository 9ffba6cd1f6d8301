import { VECTOR_TYPES } from '../VectorType.js';
import { isObject } from '../arguments/isObject.js';
import type {
  ClassifiedAnswer,
  CompletionScore,
  EmbeddedAnswer,
  GeneratedAnswer,
  KeptAnswer,
  ScoredAnswer,
  TokenLogprob,
  RankedAnswer,
} from '../KeptAnswer.js';
import { float32Numbers, float32Of, float32Text } from '../rows/float32.js';

type Entry = NonNullable<GeneratedAnswer['logprobs']>[number];
type Members = Readonly<Record<string, unknown>>;

/**
 * An answer as what JSON can write. Lists stand where there would be names over and over: an entry of `logprobs` is
 * `[token, logprob, [token, logprob, …]]`, a fourth of what it would take with them; a score `[logprob, tokens]`, and
 * `[token, logprob, …]` after it where they were asked for; probabilities `[label, probability, …]`.
 */
export function wordsFor(answer: KeptAnswer): object {
  if ('scores' in answer) {
    if (isRanked(answer))
      return { ranks: answer.scores.flatMap(({ score, logit }) => [wordFor(score), wordFor(logit)]) };
    return {
      scores: answer.scores.map(({ logprob, tokens, tokenLogprobs }) => [
        wordFor(logprob),
        tokens,
        ...(tokenLogprobs ? [tokenLogprobs.flatMap(pairFor)] : []),
      ]),
    };
  }
  if ('embedding' in answer) {
    const { embedding, vectorType, scale } = answer;
    return {
      embedding: vectorFor(embedding),
      vectorType,
      ...(scale !== undefined && { scale: wordFor(scale) }),
    };
  }
  if ('probabilities' in answer) {
    const { label, probability, probabilities } = answer;
    return {
      label,
      probability: wordFor(probability),
      probabilities: Object.entries(probabilities).flatMap(([each, of]) => [each, wordFor(of)]),
    };
  }
  const { text, reasoning, tokens, finishReason, logprobs, attempts, confidence, leastConfidence, fieldConfidence } =
    answer;
  return {
    text,
    reasoning,
    tokens,
    finishReason,
    attempts,
    confidence,
    leastConfidence,
    fieldConfidence:
      fieldConfidence && Object.entries(fieldConfidence).map(([name, { mean, least }]) => [name, mean, least]),
    logprobs: logprobs?.map((entry) => [...pairFor(entry), entry.top.flatMap(pairFor)]),
  };
}

function isRanked(answer: ScoredAnswer | RankedAnswer): answer is RankedAnswer {
  const [first] = answer.scores;
  return first !== undefined && 'logit' in first;
}

export function rankedOf({ ranks }: Members): RankedAnswer | undefined {
  if (!Array.isArray(ranks) || ranks.length === 0 || ranks.length % 2 !== 0) return undefined;
  const numbers = ranks.map(numberOf);
  if (numbers.includes(undefined)) return undefined;
  const scores = Array.from({ length: ranks.length / 2 }, (_, at) => ({
    score: numbers[2 * at] ?? NaN,
    logit: numbers[2 * at + 1] ?? NaN,
  }));
  return { scores };
}

export function generatedOf({
  text,
  reasoning,
  tokens,
  finishReason,
  logprobs,
  attempts,
  ...certainties
}: Members): GeneratedAnswer | undefined {
  if (
    typeof text !== 'string' ||
    !Array.isArray(tokens) ||
    !tokens.every(isToken) ||
    (finishReason !== 'stop' && finishReason !== 'length')
  )
    return undefined;
  if (reasoning !== undefined && typeof reasoning !== 'string') return undefined;
  if (attempts !== undefined && !(Number.isSafeInteger(attempts) && (attempts as number) > 0)) return undefined;
  const certainty = certaintyOf(certainties);
  if (!certainty) return undefined;
  const answer: GeneratedAnswer = {
    text,
    ...(reasoning !== undefined && { reasoning }),
    tokens,
    finishReason,
    ...(attempts !== undefined && { attempts: attempts as number }),
    ...certainty,
  };
  if (logprobs === undefined) return answer;
  const entries = allOf(logprobs, entryOf);
  return entries && { ...answer, logprobs: entries };
}

/** How sure the model was, as far as it was asked; undefined for what says it wrongly. */
function certaintyOf({
  confidence,
  leastConfidence,
  fieldConfidence: words,
}: Members): Pick<GeneratedAnswer, 'confidence' | 'leastConfidence' | 'fieldConfidence'> | undefined {
  if (confidence === undefined && leastConfidence === undefined && words === undefined) return {};
  if (!isProbability(confidence) || !isProbability(leastConfidence)) return undefined;
  const told = { confidence, leastConfidence };
  if (words === undefined) return told;
  const fields = allOf(words, (word) => {
    const [name, mean, least] = Array.isArray(word) ? (word as unknown[]) : [];
    return typeof name === 'string' && isProbability(mean) && isProbability(least)
      ? ([name, { mean, least }] as const)
      : undefined;
  });
  return fields && { ...told, fieldConfidence: Object.fromEntries(fields) };
}

function isProbability(value: unknown): value is number {
  return typeof value === 'number' && value >= 0 && value <= 1;
}

export function classifiedOf({
  label,
  probability: word,
  probabilities: words,
}: Members): ClassifiedAnswer | undefined {
  const [probability, all] = [numberOf(word), pairsOf(words, labelProbability)];
  // Not by assigning: a label may be called __proto__.
  return typeof label === 'string' && probability !== undefined && all
    ? { label, probability, probabilities: Object.fromEntries(all) }
    : undefined;
}

export function scoredOf({ scores: words }: Members): ScoredAnswer | undefined {
  const scores = allOf(words, scoreOf);
  return scores && { scores };
}

export function embeddedOf({ embedding: words, vectorType: type, scale: factor }: Members): EmbeddedAnswer | undefined {
  const vectorType = VECTOR_TYPES.find((each) => each === type);
  const scale = factor === undefined ? undefined : numberOf(factor);
  const embedding =
    typeof words === 'string' ? words : isObject(words) ? numbersOf(words['float32']) : allOf(words, numberOf);
  return embedding === undefined
    ? undefined
    : { embedding, ...(vectorType && { vectorType }), ...(scale !== undefined && { scale }) };
}

/** Numbers that are the 9 digits of float32's take less than half as those, which an engine's are. */
function vectorFor(embedding: EmbeddedAnswer['embedding']): unknown {
  if (typeof embedding === 'string') return embedding;
  const values = Float32Array.from(embedding);
  return float32Numbers(values).every((value, at) => Object.is(value, embedding[at]))
    ? { float32: float32Text(values) }
    : embedding.map(wordFor);
}

function numbersOf(text: unknown): readonly number[] | undefined {
  const values = typeof text === 'string' ? float32Of(text) : undefined;
  return values?.every((value) => Number.isFinite(value)) === true ? float32Numbers(values) : undefined;
}

function isToken(value: unknown): value is number {
  return typeof value === 'number' && Number.isSafeInteger(value) && value >= 0;
}

/** JSON has no -Infinity and no -0. */
function wordFor(value: number): number | string | null {
  if (value === -Infinity) return null;
  return Object.is(value, -0) ? '-0' : value;
}

function numberOf(word: unknown): number | undefined {
  if (word === null) return -Infinity;
  return word === '-0' ? -0 : typeof word === 'number' && Number.isFinite(word) ? word : undefined;
}

function pairFor({ token, logprob }: TokenLogprob): readonly unknown[] {
  return [token, wordFor(logprob)];
}

function entryOf(list: unknown): Entry | undefined {
  if (!Array.isArray(list) || list.length !== 3) return undefined;
  const [token, word, words] = list as unknown[];
  const [own, top] = [tokenLogprob(token, word), pairsOf(words, tokenLogprob)];
  return own && top && { ...own, top };
}

function scoreOf(list: unknown): CompletionScore | undefined {
  if (!Array.isArray(list) || list.length < 2 || list.length > 3) return undefined;
  const [word, tokens, words] = list as unknown[];
  const logprob = numberOf(word);
  if (logprob === undefined || !isToken(tokens)) return undefined;
  if (list.length === 2) return { logprob, tokens };
  const tokenLogprobs = pairsOf(words, tokenLogprob);
  return tokenLogprobs && { logprob, tokens, tokenLogprobs };
}

function tokenLogprob(token: unknown, word: unknown): TokenLogprob | undefined {
  const logprob = numberOf(word);
  return isToken(token) && logprob !== undefined ? { token, logprob } : undefined;
}

function labelProbability(label: unknown, word: unknown): readonly [string, number] | undefined {
  const probability = numberOf(word);
  return typeof label === 'string' && probability !== undefined ? [label, probability] : undefined;
}

/** Pairs what a list holds in twos. */
function pairsOf<T>(words: unknown, of: (first: unknown, second: unknown) => T | undefined): T[] | undefined {
  if (!Array.isArray(words) || words.length % 2 !== 0) return undefined;
  const list = words as readonly unknown[];
  return allOf(
    Array.from({ length: list.length / 2 }, (_, at) => at),
    (at) => of(list[2 * at], list[2 * at + 1]),
  );
}

function allOf<Word, T>(words: readonly Word[], of: (word: Word) => T | undefined): T[] | undefined;
function allOf<T>(words: unknown, of: (word: unknown) => T | undefined): T[] | undefined;
function allOf<T>(words: unknown, of: (word: unknown) => T | undefined): T[] | undefined {
  if (!Array.isArray(words)) return undefined;
  const all: T[] = [];
  for (const word of words as readonly unknown[]) {
    const one = of(word);
    if (one === undefined) return undefined;
    all.push(one);
  }
  return all;
}
