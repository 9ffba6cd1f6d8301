import { InvalidArgumentError } from 'commander';
import { isWithin, rangeWords, sizeOr, wholeRange, type NumberRange } from '../library.js';

/** A reader of one flag's value, as commander calls it. What it throws becomes `error: option '--x' argument 'y' is invalid. …`. */
export type FlagParser<T> = (text: string) => T;

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
  return within(range, /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i, or);
}

function within(range: NumberRange, written: RegExp, or = ''): FlagParser<number> {
  return (text) => {
    const value = written.test(text) ? Number(text) : NaN;
    if (isWithin(value, range)) return value;
    throw new InvalidArgumentError(`Expected ${rangeWords(range, Number.isNaN(value) ? text : value)}${or}.`);
  };
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
