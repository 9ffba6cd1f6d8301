import { createHash } from 'node:crypto';
import { formatText } from '../grammar/formatText.js';
import type { TextRules } from './ActiveRow.js';
import type { AnswerKind } from './Answers.js';
import type { PreparedRow } from './prepareRow.js';

/**
 * Which answers grammars give: to be raised when a new version of llguidance, or what is told to it, allows other
 * tokens, and when other answers count as whole ones.
 */
const GRAMMARS_VERSION = 6;
/**
 * The version of what is made of log-probabilities and hidden states: to be raised when `answerTasks`, or what it
 * calls, makes other numbers of them.
 */
const ANSWERS_VERSION = 1;

/**
 * 256 bits that stand for all that decides a row's answer beside the engine: rows of one key have one answer, whatever
 * their ids. Of a greedy row what only steers chance does not count. Pure.
 * @param scope what else decides: an engine's `resultIdentityKey`, where keys of several meet
 * @returns 64 hexadecimal digits
 */
export function rowKey(
  {
    tokens,
    temperature,
    maxNewTokens,
    topP,
    topK,
    minP,
    repetitionPenalty,
    seed,
    stop,
    stopTokens,
    adjustments,
    responseFormat,
    retry,
    channels,
  }: PreparedRow,
  { ignoreEos, logprobs, reasoning = 'keep', confidence = false }: TextRules,
  scope = '',
): string {
  const chance = temperature > 0 ? [temperature, topP, topK, minP, seed] : null;
  const reasons = reasoning === 'keep' ? [] : [reasoning];
  const format = responseFormat ? [GRAMMARS_VERSION, formatText(responseFormat)] : [];
  // What came later stands there only where it is said: answers that were kept before stay good.
  const adjusts = adjustments ? [adjustments] : [];
  const ends = stopTokens.size > 0 ? [[...stopTokens].sort((a, b) => a - b)] : [];
  const retries = retry ? [['retries', retry.most, retry.temperature, seed, retry.source()]] : [];
  return keyOf(
    [
      scope,
      maxNewTokens,
      repetitionPenalty,
      stop,
      ignoreEos,
      logprobs ?? null,
      chance,
      tokens.length,
      ...reasons,
      ...format,
      ...adjusts,
      ...ends,
      ...retries,
      ...(confidence ? ['confidence'] : []),
      ...(channels ? [['channels', channels.form.name]] : []),
    ],
    tokens,
  );
}

/**
 * The same of a row that generates nothing. No key is one of `rowKey`: a name stands here where a number stands there.
 * Pure.
 * @param parameters all that decides the answer beside the prompt, defaults filled in: plain data, of which equal texts
 * of JSON are equal
 */
export function answerKey(
  task: AnswerKind,
  parameters: readonly unknown[],
  tokens: readonly number[],
  scope = '',
): string {
  return keyOf([scope, task, ANSWERS_VERSION, ...parameters, tokens.length], tokens);
}

function keyOf(parameters: readonly unknown[], tokens: readonly number[]): string {
  return createHash('sha256').update(JSON.stringify(parameters)).update(Int32Array.from(tokens)).digest('hex');
}
