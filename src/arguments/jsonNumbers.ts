import { randomUUID } from 'node:crypto';
import { isDeepStrictEqual } from 'node:util';
import { drained, type Work } from '../collections/drained.js';
import { setOwn } from '../collections/setOwn.js';
import { isObject } from './isObject.js';

/** Shorter numbers of JSON are what JSON.parse makes of them, to the last digit. */
export const LONG_NUMBER = /\d(?:\.?\d){15}/;
/** Spellings that may stand in a text of JSON with numbers that JavaScript's cannot hold. */
const LARGE = new RegExp(`${LONG_NUMBER.source}|[eE]\\+?\\d{3}`);
const [QUOTE, BACKSLASH] = [0x22, 0x5c];
const [OPENS_LIST, OPENS_OBJECT, CLOSES_LIST, CLOSES_OBJECT] = [0x5b, 0x7b, 0x5d, 0x7d];
const NUMBER = /-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g;

/** Lists and objects inside of one another: whoever goes through values has a stack for so many. */
const DEEPEST = 1000;

/**
 * JSON.parse reads any depth, and leaves it to whoever goes through the values.
 * @throws RangeError for too much of it
 */
export function checkDepth(json: string): void {
  // As many are closed as are opened.
  if (json.length <= 2 * DEEPEST) return;
  let depth = 0;
  for (let at = 0; at < json.length; at++) {
    const unit = json.charCodeAt(at);
    if (unit === QUOTE) at = endOfString(json, at) - 1;
    else if (unit === CLOSES_LIST || unit === CLOSES_OBJECT) depth--;
    else if ((unit === OPENS_LIST || unit === OPENS_OBJECT) && ++depth > DEEPEST)
      throw new RangeError(
        `found more than ${DEEPEST} lists and objects inside of one another, expected at most so many`,
      );
  }
}

/**
 * A text of JSON with numbers that JSON.parse would change as texts of their digits: whole ones that no number of
 * JavaScript's is, and those beyond all. Fractions are rounded to the nearest, as everywhere.
 * @param json sound JSON
 * @returns undefined where there are none
 */
export function withTextsOfNumbers(json: string): string | undefined {
  return drained(textsOfNumbers(json));
}

/** Units of a text that are gone through at a time. */
const SLICE_UNITS = 2 ** 16;

/** The same in slices: a text of megabytes may hold hundreds of thousands of numbers to be looked at. */
export function* textsOfNumbers(json: string): Work<string | undefined> {
  if (!LARGE.test(json)) return undefined;
  yield;
  return yield* replacedNumbers(json, (token) => (!LARGE.test(token) || isHeld(token) ? undefined : `"${token}"`));
}

/**
 * A text of JSON with other things where its numbers stood, in slices.
 * @param replace what stands for a number; undefined for itself
 * @returns undefined where all stand for themselves
 */
function* replacedNumbers(json: string, replace: (token: string) => string | undefined): Work<string | undefined> {
  let found = false;
  const asTexts = (outside: string): string =>
    outside.replace(NUMBER, (token) => {
      const instead = replace(token);
      if (instead === undefined) return token;
      found = true;
      return instead;
    });
  // Strings may be megabytes long: a pattern that went through one would keep its way back for each character.
  const pieces: string[] = [];
  let next = SLICE_UNITS;
  for (let at = 0; at < json.length;) {
    if (at > next) {
      yield;
      next = at + SLICE_UNITS;
    }
    const opens = json.indexOf('"', at);
    // Between strings a slice ends where a number does.
    const comma = opens >= 0 && opens - at < SLICE_UNITS ? -1 : json.indexOf(',', at + SLICE_UNITS);
    if (comma >= 0 && (opens < 0 || comma < opens)) {
      pieces.push(asTexts(json.slice(at, comma)));
      at = comma;
      continue;
    }
    const closed = opens < 0 ? json.length : endOfString(json, opens);
    pieces.push(asTexts(json.slice(at, opens < 0 ? json.length : opens)));
    if (opens >= 0) pieces.push(json.slice(opens, closed));
    at = closed;
  }
  return found ? pieces.join('') : undefined;
}

/**
 * A number of JSON with its spelling, where that says more than its value: a fraction that is whole (`1.0`, `1e5`), or
 * digits that no number of JavaScript's holds. It counts as its value wherever a number does, also in JSON.
 */
export class SpelledNumber extends Number {
  constructor(readonly spelling: string) {
    super(spelling);
  }
}

/** Spellings that may stand in a text of JSON with numbers that are not what their value says. */
const SPELLED = new RegExp(`\\d\\.\\d*0(?![.\\d])|\\d[eE]|-0|${LONG_NUMBER.source}`);

/**
 * JSON as JSON.parse reads it, but for numbers whose spelling says more than their value, which keep it.
 * @param read what JSON.parse makes of it, if that is known
 * @throws SyntaxError for what is no JSON; RangeError for what is nested too deep
 */
export function readWithSpelling(json: string, read: unknown = JSON.parse(json)): unknown {
  return drained(spelledInParts(json, read));
}

/** The same in slices. */
export function* spelledInParts(json: string, read: unknown): Work<unknown> {
  if (!SPELLED.test(json)) return read;
  // No text begins with what nobody can know before.
  const mark = randomUUID();
  const marked = yield* replacedNumbers(json, (token) => (isSpelled(token) ? `"${mark}${token}"` : undefined));
  if (marked === undefined) return read;
  yield;
  const value: unknown = JSON.parse(marked);
  yield;
  return yield* unmarked(value, mark, { values: 0 });
}

/** Values between two moments at which reading them may stop. */
const SLICE_VALUES = 4096;

/** Makes marked texts numbers again, in place. */
function* unmarked(value: unknown, mark: string, looked: { values: number }): Work<unknown> {
  if (typeof value === 'string') return value.startsWith(mark) ? new SpelledNumber(value.slice(mark.length)) : value;
  if (!isObject(value) && !Array.isArray(value)) return value;
  const members = value as Record<string, unknown>;
  for (const name of Object.keys(members)) {
    const member = members[name];
    if ((looked.values += 1) % SLICE_VALUES === 0) yield;
    if (typeof member !== 'string' && typeof member !== 'object') continue;
    const made = yield* unmarked(member, mark, looked);
    if (made !== member) Object.defineProperty(members, name, { value: made });
  }
  return value;
}

/**
 * A copy that is what JSON makes of a value; numbers with a spelling keep it.
 * @throws TypeError for what is no JSON; RangeError for what is nested too deep, or leads to itself
 */
export function plainCopy(value: unknown): unknown {
  const copy = copied('', value, DEEPEST);
  if (copy === undefined) throw new TypeError(`found ${typeof value}, which JSON has not`);
  return copy;
}

function copied(name: string, given: unknown, deepest: number): unknown {
  if (given instanceof SpelledNumber) return given;
  const value = bareValue(name, given);
  if (typeof value === 'bigint') throw new TypeError('found a BigInt, which JSON has not');
  // Of zeros JSON has one.
  if (typeof value === 'number') return Number.isFinite(value) ? value + 0 : null;
  if (typeof value !== 'object' || value === null)
    return typeof value === 'string' || typeof value === 'boolean' ? value : value === null ? null : undefined;
  if (deepest === 0) throw new RangeError('found too many lists and objects inside of one another');
  // Where a list has holes there is nothing.
  if (Array.isArray(value)) return Array.from(value, (member, at) => copied(String(at), member, deepest - 1) ?? null);
  const copy: Record<string, unknown> = {};
  for (const [key, member] of Object.entries(value)) {
    const made = copied(key, member, deepest - 1);
    if (made !== undefined) setOwn(copy, key, made);
  }
  return copy;
}

/** Gives what JSON.stringify takes a value for. */
function bareValue(name: string, given: unknown): unknown {
  if (given === null || (typeof given !== 'object' && typeof given !== 'bigint')) return given;
  const { toJSON } = given as { readonly toJSON?: unknown };
  const value: unknown = typeof toJSON === 'function' ? toJSON.call(given, name) : given;
  return value instanceof Number || value instanceof String || value instanceof Boolean ? value.valueOf() : value;
}

function isSpelled(token: string): boolean {
  const number = Number(token);
  return /[.eE]/.test(token)
    ? Number.isInteger(number) || !Number.isFinite(number)
    : !Number.isSafeInteger(number) || Object.is(number, -0);
}

/** Where what follows a string begins. */
function endOfString(json: string, opens: number): number {
  const close = json.indexOf('"', opens + 1);
  if (close < 0) return json.length;
  if (json[close - 1] !== '\\') return close + 1;
  // One that is full of escapes: each is passed over.
  let at = opens + 1;
  for (; at < json.length; at++) {
    const unit = json.charCodeAt(at);
    if (unit === BACKSLASH) at++;
    else if (unit === QUOTE) return at + 1;
  }
  return json.length;
}

/**
 * JSON as JSON.parse reads it, and with the digits that it loses: the same value twice where it loses none.
 * @throws SyntaxError for what is no JSON; RangeError for what is nested too deep
 */
export function readWithDigits(json: string): readonly [read: unknown, written: unknown] {
  checkDepth(json);
  const read = JSON.parse(json) as unknown;
  const texts = withTextsOfNumbers(json);
  return [read, texts === undefined ? read : (JSON.parse(texts) as unknown)];
}

const BOUNDS: ReadonlySet<string> = new Set([
  'minimum',
  'maximum',
  'exclusiveMinimum',
  'exclusiveMaximum',
  'multipleOf',
]);

/**
 * Tells whether a schema's choices (`enum`, `const`) or bounds (`minimum`, `multipleOf`, …) lose digits by being read:
 * no answer could be held to what stands there.
 * @param read, written as `readWithDigits` has them
 */
export function losesChoices(read: unknown, written: unknown): boolean {
  if (read === written) return false;
  if (Array.isArray(read) && Array.isArray(written)) return read.some((each, at) => losesChoices(each, written[at]));
  if (!isObject(read) || !isObject(written)) return false;
  return Object.entries(read).some(([name, value]) => {
    const as = written[name];
    if (name === 'enum' || name === 'const') return !isDeepStrictEqual(value, as);
    if (BOUNDS.has(name) && typeof value === 'number') return value !== as && !isBeyond(name, as);
    // A property may have any name.
    if (name === 'properties' && isObject(value) && isObject(as))
      return Object.entries(value).some(([property, schema]) => losesChoices(schema, as[property]));
    return losesChoices(value, as);
  });
}

/** Tells whether a bound lies where no integer of 64 bits is bounded by it: there its digits change nothing. */
function isBeyond(bound: string, written: unknown): boolean {
  if (typeof written !== 'string' || !/^-?\d+$/.test(written)) return false;
  const whole = BigInt(written);
  if (bound === 'maximum') return whole >= 2n ** 63n - 1n;
  if (bound === 'exclusiveMaximum') return whole >= 2n ** 63n;
  return (bound === 'minimum' || bound === 'exclusiveMinimum') && whole <= -(2n ** 63n);
}

export const LOST_CHOICES =
  'found a choice (enum, const) or a bound (minimum, maximum, …) with a number that loses digits when it is read, expected whole numbers up to 2^53; longer choices as strings';

function isHeld(token: string): boolean {
  const number = Number(token);
  if (!Number.isFinite(number)) return false;
  if (/^-?\d+$/.test(token)) return Number.isSafeInteger(number) || BigInt(token) === BigInt(number);
  // Whole ones may be written otherwise: 9007199254740993.0, 9.007199254740993e15. What programs write of a double is
  // held: its 16 or 17 digits, or all of them.
  const { digits, exponent } = decimalOf(token);
  return (
    exponent < 0 ||
    [String(number), number.toPrecision(17)].some((written) => sameDecimal(token, written)) ||
    BigInt(digits + '0'.repeat(exponent)) === BigInt(number)
  );
}

/** Tells whether two numbers of JSON are the same value to the last digit, however they are written. */
export function sameDecimal(a: string, b: string): boolean {
  const [one, other] = [decimalOf(a), decimalOf(b)];
  return one.digits === other.digits && (one.digits === '' || one.exponent === other.exponent);
}

/** A number as digits, without zeros round them, times a power of ten; zero has none, whatever its sign. */
function decimalOf(token: string): { readonly digits: string; readonly exponent: number } {
  const [, sign = '', whole = '', fraction = '', power = '0'] =
    /^(-?)(\d+)(?:\.(\d+))?(?:[eE]([+-]?\d+))?$/.exec(token) ?? [];
  const all = (whole + fraction).replace(/^0+/, '');
  let end = all.length;
  while (all[end - 1] === '0') end--;
  return {
    digits: end === 0 ? '' : sign + all.slice(0, end),
    exponent: end === 0 ? 0 : Number(power) - fraction.length + all.length - end,
  };
}
