import { isDeepStrictEqual } from 'node:util';
import { isObject } from './isObject.js';

/** What may stand in a text of JSON whose numbers JavaScript's cannot hold. */
const LARGE = /\d{16}|[eE]\+?\d{3}/;
const NUMBER = /-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g;

/**
 * A text of JSON with numbers that JSON.parse would change as texts of their digits: whole ones that no number of
 * JavaScript's is, and those beyond all. Fractions are rounded to the nearest, as everywhere.
 * @param json sound JSON
 * @returns undefined where there are none
 */
export function withTextsOfNumbers(json: string): string | undefined {
  if (!LARGE.test(json)) return undefined;
  let found = false;
  const asTexts = (outside: string): string =>
    outside.replace(NUMBER, (token) => {
      if (isHeld(token)) return token;
      found = true;
      return `"${token}"`;
    });
  // Strings may be megabytes long: a pattern that went through one would keep its way back for each character.
  const pieces: string[] = [];
  for (let at = 0; at < json.length;) {
    const opens = json.indexOf('"', at);
    const closed = opens < 0 ? json.length : endOfString(json, opens);
    pieces.push(asTexts(json.slice(at, opens < 0 ? json.length : opens)));
    if (opens >= 0) pieces.push(json.slice(opens, closed));
    at = closed;
  }
  return found ? pieces.join('') : undefined;
}

/** Where what follows a string begins. */
function endOfString(json: string, opens: number): number {
  for (let close = json.indexOf('"', opens + 1); close >= 0; close = json.indexOf('"', close + 1)) {
    let escapes = close;
    while (json[escapes - 1] === '\\') escapes--;
    if ((close - escapes) % 2 === 0) return close + 1;
  }
  return json.length;
}

/**
 * JSON as JSON.parse reads it, and with the digits that it loses: the same value twice where it loses none.
 * @throws SyntaxError for what is no JSON; RangeError for what is nested too deep
 */
export function readWithDigits(json: string): readonly [read: unknown, written: unknown] {
  const read = JSON.parse(json) as unknown;
  const texts = withTextsOfNumbers(json);
  return [read, texts === undefined ? read : (JSON.parse(texts) as unknown)];
}

/**
 * Whether a schema's choices (`enum`, `const`) lose digits by being read: no answer could be held to what stands there.
 * @param read, written as `readWithDigits` has them
 */
export function losesChoices(read: unknown, written: unknown): boolean {
  if (read === written) return false;
  if (Array.isArray(read) && Array.isArray(written)) return read.some((each, at) => losesChoices(each, written[at]));
  if (!isObject(read) || !isObject(written)) return false;
  return Object.entries(read).some(([name, value]) => {
    const as = written[name];
    if (name === 'enum' || name === 'const') return !isDeepStrictEqual(value, as);
    // A property may have any name.
    if (name === 'properties' && isObject(value) && isObject(as))
      return Object.entries(value).some(([property, schema]) => losesChoices(schema, as[property]));
    return losesChoices(value, as);
  });
}

export const LOST_CHOICES =
  'found a choice (enum, const) with a number that loses digits when it is read, expected whole numbers up to 2^53; longer ones as strings';

function isHeld(token: string): boolean {
  const number = Number(token);
  if (!/^-?\d+$/.test(token)) return Number.isFinite(number);
  return Number.isSafeInteger(number) || (Number.isFinite(number) && BigInt(token) === BigInt(number));
}
