import { createHash } from 'node:crypto';
import { formatText } from '../grammar/formatText.js';
import type { TextRules } from './ActiveRow.js';
import type { PreparedRow } from './prepareRow.js';

/** Which answers grammars give: to be raised when a new version of llguidance, or what is told to it, allows other tokens. */
const GRAMMARS_VERSION = 2;

/**
 * 256 bits that stand for all that decides a row's answer beside the engine: rows of one key have one answer, whatever their ids. Of a greedy row what only
 * steers chance does not count. Pure.
 * @param scope what else decides: an engine's `resultIdentityKey`, where keys of several meet
 * @returns 64 hexadecimal digits
 */
export function rowKey({ tokens, temperature, maxNewTokens, topP, topK, minP, repetitionPenalty, seed, stop, responseFormat }: PreparedRow, { ignoreEos, logprobs, reasoning = 'keep' }: TextRules, scope = ''): string {
  const chance = temperature > 0 ? [temperature, topP, topK, minP, seed] : null;
  const parameters = JSON.stringify([scope, maxNewTokens, repetitionPenalty, stop, ignoreEos, logprobs ?? null, chance, tokens.length, ...(reasoning === 'keep' ? [] : [reasoning]), ...(responseFormat ? [GRAMMARS_VERSION, formatText(responseFormat)] : [])]);
  return createHash('sha256').update(parameters).update(Int32Array.from(tokens)).digest('hex');
}
