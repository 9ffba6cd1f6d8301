import { InvalidArgumentError } from 'commander';
import { isWithin, rangeWords, sizeOr, UsageError, wholeRange, type NumberRange } from '../library.js';

/**
 * A reader of one flag's value, as commander calls it. What it throws becomes `error: option '--x' argument 'y' is
 * invalid. …`.
 */
export type FlagParser<T> = (text: string) => T;

const DECIMAL = /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i;

/** Decimal digits only: no hexadecimal, no exponent, no blank. */
export function wholeNumber(least: number, most?: number): FlagParser<number> {
  return within(wholeRange(least, most), /^[+-]?\d+$/);
}

/** A list with commas, e.g. `1,8,32`. */
export function wholeNumbers(least: number, most?: number): FlagParser<readonly number[]> {
  const parse = wholeNumber(least, most);
  return (text) => text.split(',').map((part) => parse(part.trim()));
}

/** @param or what else there is, e.g. `, or off` */
export function decimal(range: NumberRange, or = ''): FlagParser<number> {
  return within(range, DECIMAL, or);
}

function within(range: NumberRange, written: RegExp, or = ''): FlagParser<number> {
  return (text) => {
    const value = written.test(text) ? Number(text) : NaN;
    if (isWithin(value, range)) return value;
    // A number that is not written as this one has to be may be out of its range all the same: then that is what is
    // wrong.
    const number = DECIMAL.test(text) ? Number(text) : NaN;
    throw new InvalidArgumentError(`Expected ${rangeWords(range, Number.isNaN(number) ? text : number)}${or}.`);
  };
}

/** A list `ID=BIAS,…`. */
export function tokenBiases(text: string): Readonly<Record<string, number>> {
  const pairs = text.split(',').map((pair) => /^\s*(\d+)\s*=\s*(\S+)\s*$/.exec(pair));
  if (pairs.some((pair) => pair === null || !DECIMAL.test(pair[2] ?? '')))
    throw new InvalidArgumentError('Expected ID=BIAS,…: token ids and biases.');
  return Object.fromEntries(pairs.map((pair) => [String(Number(pair?.[1])), Number(pair?.[2])]));
}

/** A size in bytes. */
export function size(text: string): number {
  return sizeOr(text, (expected) => {
    throw new InvalidArgumentError(`Expected ${expected}.`);
  });
}

/** A size in bytes; 0 for none. */
export function sizeOrNone(text: string): number {
  return /^0+$/.test(text) ? 0 : size(text);
}

export function path(text: string): string {
  if (text === '') throw new InvalidArgumentError('Expected a path.');
  return text;
}

export function stopString(text: string, before: readonly string[] | undefined): readonly string[] {
  if (text === '') throw new InvalidArgumentError('Expected a string that is not empty.');
  return [...(before ?? []), text];
}

/** A list `name=COLUMN,…`; a comma in a column's name is written twice. @param check judges it as the library does */
export function columnNames(
  check: (columns: Readonly<Record<string, string>>) => void = () => undefined,
): FlagParser<Readonly<Record<string, string>>> {
  return (text) => {
    const pairs = text
      .replaceAll(',,', '\0')
      .split(',')
      .map((part) => part.replaceAll('\0', ','));
    const wrong = pairs.find((pair) => !/^[^=]+=./s.test(pair));
    if (wrong !== undefined) throw new InvalidArgumentError(`Found ${JSON.stringify(wrong)}, expected name=COLUMN,….`);
    const names = pairs.map((pair) => pair.slice(0, pair.indexOf('=')));
    const twice = names.find((name, at) => names.indexOf(name) !== at);
    if (twice !== undefined)
      throw new InvalidArgumentError(`Found ${JSON.stringify(twice)} twice, expected each name once.`);
    const columns = Object.fromEntries(pairs.map((pair, at) => [names[at] ?? '', pair.slice(pair.indexOf('=') + 1)]));
    return checked(check, columns);
  };
}

/** A value as the library judges it. */
export function checkedText(check: (text: string) => void): FlagParser<string> {
  return (text) => checked(check, text);
}

function checked<T>(check: (value: T) => void, value: T): T {
  try {
    check(value);
    return value;
  } catch (error) {
    if (error instanceof UsageError) throw new InvalidArgumentError(`${sentence(error.message)}.`);
    throw error;
  }
}

/** Without the option's name: commander has named the flag already. */
function sentence(message: string): string {
  const words = message.replace(/^[a-z][A-Za-z]*(?:: |\.)/, '');
  return words.charAt(0).toUpperCase() + words.slice(1);
}
