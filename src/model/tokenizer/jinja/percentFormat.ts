import { lengthOf } from './characters.js';
import { magnitudeText, wholeOf } from './decimals.js';
import { PythonError, typeError, unsupported, valueError } from './errors.js';
import { make, made } from './meter.js';
import { intText, repr, str } from './text.js';
import { Dict, Float, Range, Tuple, textOf, typeName, Undefined, type Value } from './values.js';

const FIELD = /%(?:\(((?:[^()]|\([^()]*\))*)\))?([-+ #0]*)(\*|\d+)?(?:\.(\*|\d+)?)?[hlL]?([^])/gu;
/** The types that may have members by name, or seem to: then nobody asks whether all of the value has been written. */
const SUBSCRIPTABLE = [Array, Dict, Range, Undefined] as const;
/** Most width of a number: more than any, so that no width is a text of its own. */
const MOST_WIDTH = 100_000;

/**
 * Python's `text % values`.
 * @param convert what becomes of a value before it is a text
 */
export function percentFormat(format: string, values: Value, convert?: (value: Value) => Value): string {
  const args = values instanceof Tuple ? values.items : [values];
  const mapping = SUBSCRIPTABLE.some((kind) => values instanceof kind);
  let next = 0;
  const take = (): Value => {
    const value = args[next++];
    if (value === undefined) throw typeError('not enough arguments for format string');
    return value;
  };
  let result = '';
  let done = 0;
  for (const match of format.matchAll(FIELD)) {
    result += literal(format, done, match.index);
    const [whole, key, flags = '', width, precision, type = ''] = match;
    done = match.index + whole.length;
    if (type === '%' && whole === '%%') {
      result += '%';
      continue;
    }
    const keyed = key === undefined ? undefined : memberOf(values, key, mapping);
    let minus = flags.includes('-');
    let wide = 0;
    if (width === '*') {
      wide = whole1(take());
      if (wide < 0) minus = true;
      wide = Math.abs(wide);
    } else if (width !== undefined) wide = Number(width);
    let places: number | undefined;
    if (precision === '*') places = Math.max(0, whole1(take()));
    else if (precision !== undefined) places = Number(precision);
    else if (/\.[hlL]?[^]$/u.test(whole)) places = 0;
    if (wide > MOST_WIDTH) make(wide);
    if (type === '%') {
      result += '%';
      continue;
    }
    const value = keyed === undefined ? take() : keyed;
    const text = converted(value, type, { flags, places, convert });
    result += padded(text, { width: wide, minus, zero: flags.includes('0') && 'diuoxXeEfFgG'.includes(type) });
  }
  result += literal(format, done, format.length);
  if (next < args.length && !mapping) throw typeError('not all arguments converted during string formatting');
  return made(result);
}

function literal(format: string, from: number, to: number): string {
  const text = format.slice(from, to);
  if (text.includes('%')) throw valueError('incomplete format');
  return text;
}

function whole1(value: Value): number {
  if (typeof value === 'number') return value;
  if (typeof value === 'boolean') return Number(value);
  throw typeError('* wants int');
}

function memberOf(values: Value, key: string, mapping: boolean): Value {
  if (!mapping) throw typeError('format requires a mapping');
  if (values instanceof Undefined) return values.fail();
  if (!(values instanceof Dict)) throw typeError('format requires a mapping');
  const found = values.get(key);
  if (found === undefined) throw new PythonError('LookupError', key);
  return found;
}

interface Conversion {
  readonly flags: string;
  readonly places: number | undefined;
  readonly convert: ((value: Value) => Value) | undefined;
}

function converted(value: Value, type: string, { flags, places, convert }: Conversion): string {
  const sign = flags.includes('+') ? '+' : flags.includes(' ') ? ' ' : '';
  switch (type) {
    case 's':
    case 'r': {
      const text =
        type === 's'
          ? str(convert ? convert(value) : value)
          : convert === undefined
            ? repr(value)
            : str(convert(repr(value)));
      return places === undefined ? text : Array.from(text).slice(0, places).join('');
    }
    case 'c': {
      const character = textOf(value);
      if (character !== undefined && lengthOf(character) === 1) return character;
      const code = typeof value === 'boolean' ? Number(value) : value;
      if (typeof code !== 'number') throw typeError('%c requires int or char');
      if (code < 0 || code > 0x10ffff) throw new PythonError('OverflowError', '%c arg not in range(0x110000)');
      return String.fromCodePoint(code);
    }
    case 'd':
    case 'i':
    case 'u':
    case 'o':
    case 'x':
    case 'X':
      return wholeNumber(value, type, { sign, places, alternate: flags.includes('#') });
    case 'e':
    case 'E':
    case 'f':
    case 'F':
    case 'g':
    case 'G': {
      const number = realOf(value);
      const text = magnitudeText(Math.abs(number), type, places ?? 6, flags.includes('#'));
      return (number < 0 || Object.is(number, -0) ? '-' : sign) + text;
    }
    case 'a':
      throw unsupported('%a');
    default:
      throw valueError(`unsupported format character '${type}'`);
  }
}

export function realOf(value: Value): number {
  if (value instanceof Float) return value.value;
  if (typeof value === 'number' || typeof value === 'boolean') return Number(value);
  if (typeof value === 'bigint') return Number(value);
  if (value instanceof Undefined) return value.fail();
  throw typeError(`must be real number, not ${typeName(value)}`);
}

function wholeNumber(
  value: Value,
  type: string,
  { sign, places, alternate }: { sign: string; places: number | undefined; alternate: boolean },
): string {
  const decimal = type === 'd' || type === 'i' || type === 'u';
  let int: number | bigint;
  if (typeof value === 'number' || typeof value === 'bigint') int = value;
  else if (typeof value === 'boolean') int = Number(value);
  else if (decimal && value instanceof Float) int = wholeOf(value.value);
  else if (value instanceof Undefined && decimal) return value.fail();
  else
    throw typeError(`%${type} format: ${decimal ? 'a real number' : 'an integer'} is required, not ${typeName(value)}`);
  const negative = int < 0;
  const magnitude = negative ? -int : int;
  let digits = decimal ? intText(magnitude) : magnitude.toString(type === 'o' ? 8 : 16);
  if (places !== undefined) {
    make(places);
    digits = digits.padStart(places, '0');
  }
  if (alternate && !decimal) digits = (type === 'o' ? '0o' : '0x') + digits;
  if (type === 'X') digits = digits.toUpperCase();
  return (negative ? '-' : sign) + digits;
}

function padded(text: string, { width, minus, zero }: { width: number; minus: boolean; zero: boolean }): string {
  const missing = width - lengthOf(text);
  if (missing <= 0) return text;
  make(width);
  if (minus) return text + ' '.repeat(missing);
  if (!zero) return ' '.repeat(missing) + text;
  const [, before = '', rest = ''] = /^([-+ ]?(?:0[xXo])?)([^]*)$/u.exec(text) ?? [];
  return before + '0'.repeat(missing) + rest;
}
