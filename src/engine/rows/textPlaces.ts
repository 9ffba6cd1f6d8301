import type { Work } from '../../collections/drained.js';
import type { Tokenizer } from '../../model/Tokenizer.js';
import { encoded } from './promptTokens.js';

/** Tokens whose places are found between two turns of others. */
const PLACES = 2 ** 14;

/** The tokens of a text that stands within another. @param parseSpecial whether it may have control tokens */
export function tokensWithin(text: string, tokenizer: Tokenizer, parseSpecial: boolean): Work<readonly number[]> {
  return encoded(text, tokenizer, { specialTokens: false, parseSpecial, continues: true });
}

/** Where each of a text's tokens begins, in UTF-16 units, and where the last one ends. */
export function* tokenPlaces(text: string, tokenizer: Tokenizer, parseSpecial: boolean): Work<readonly number[]> {
  const ids = yield* tokensWithin(text, tokenizer, parseSpecial);
  const stream = tokenizer.stream();
  const places = [0];
  let decoded = '';
  for (const [at, id] of ids.entries()) {
    decoded += stream.push(id);
    places.push(decoded.length);
    if (at % PLACES === PLACES - 1) yield;
  }
  if (decoded + stream.end() === text) return places;
  // Tokens that do not say what they were made of: as if all had as many units.
  return Array.from({ length: ids.length + 1 }, (_, at) => Math.round((at * text.length) / Math.max(1, ids.length)));
}

const CHARACTERS = new Intl.Segmenter('en', { granularity: 'grapheme' });
/** Longer ones are no characters that anybody writes: of them a code point stays whole. */
const CHARACTER_UNITS = 64;

/** The ends of the character within which a place is; the place twice where it is between two. */
export function characterAt(text: string, place: number): { readonly from: number; readonly to: number } {
  if (place <= 0 || place >= text.length) return { from: place, to: place };
  const isPair = (at: number): boolean => (text.codePointAt(at - 1) ?? 0) > 0xff_ff;
  let start = Math.max(0, place - CHARACTER_UNITS);
  if (start > 0 && isPair(start)) start -= 1;
  const window = text.slice(start, place + CHARACTER_UNITS);
  const { index = 0, segment = '' } = CHARACTERS.segment(window).containing(place - start) ?? {};
  if (segment.length < CHARACTER_UNITS)
    return { from: start + index, to: index + start === place ? place : start + index + segment.length };
  return isPair(place) ? { from: place - 1, to: place + 1 } : { from: place, to: place };
}
