import { InvalidArgumentError } from 'commander';
import { parseBytes, wholeNumberWords } from '../library.js';

/** A reader of one flag's value, as commander calls it. What it throws becomes `error: option '--x' argument 'y' is invalid. …`. */
export type FlagParser<T> = (text: string) => T;

/** Decimal digits only: no hexadecimal, no exponent, no blank. */
export function wholeNumber(least: number, most = Number.MAX_SAFE_INTEGER): FlagParser<number> {
  return (text) => {
    const value = /^[+-]?\d+$/.test(text) ? Number(text) : NaN;
    if (Number.isSafeInteger(value) && value >= least && value <= most) return value;
    throw new InvalidArgumentError(`Expected ${wholeNumberWords(value, least, most)}.`);
  };
}

/** A list with commas, e.g. `1,8,32`. */
export function wholeNumbers(least: number, most = Number.MAX_SAFE_INTEGER): FlagParser<readonly number[]> {
  const parse = wholeNumber(least, most);
  return (text) => text.split(',').map((part) => parse(part.trim()));
}

/** @param expected the range in words, e.g. `above 0 and at most 1` */
export function decimal(valid: (value: number) => boolean, expected: string): FlagParser<number> {
  return (text) => {
    const value = /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i.test(text) ? Number(text) : NaN;
    if (Number.isFinite(value) && valid(value)) return value;
    throw new InvalidArgumentError(`Expected a number ${expected}.`);
  };
}

/** A size in bytes. */
export function size(text: string): number {
  try {
    return parseBytes(text);
  } catch {
    throw new InvalidArgumentError('Expected a size such as 512MiB, 2GiB, 16GB or plain bytes.');
  }
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
