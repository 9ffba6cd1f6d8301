import { isObject } from '../arguments/isObject.js';
import type { KeptAnswer } from '../KeptAnswer.js';
import { classifiedOf, embeddedOf, generatedOf, rankedOf, scoredOf, wordsFor } from './answerWords.js';

/** Most lists and objects in what is parsed; see `hasFewContainers`. */
const MOST_CONTAINERS = 2 ** 20;
const [BRACKET, BRACE] = [0x5b, 0x7b];

/**
 * An answer as UTF-8 JSON, whose numbers are those that JavaScript reads back as the same bits. (Lone halves of
 * surrogate pairs it escapes, so that they survive UTF-8.)
 * @returns undefined for what would not be read again
 */
export function answerBytes(answer: KeptAnswer): Buffer | undefined {
  const bytes = Buffer.from(JSON.stringify(wordsFor(answer)));
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
  return generatedOf(value) ?? classifiedOf(value) ?? scoredOf(value) ?? rankedOf(value) ?? embeddedOf(value);
}

/**
 * JSON.parse makes up to a hundred bytes of heap from one bracket, and running out of heap ends the process. So
 * brackets are counted first, also those inside of strings: no answer has so many.
 */
function hasFewContainers(bytes: Buffer): boolean {
  if (bytes.length <= MOST_CONTAINERS) return true;
  let containers = 0;
  for (const byte of bytes) if (byte === BRACKET || byte === BRACE) containers += 1;
  return containers <= MOST_CONTAINERS;
}
