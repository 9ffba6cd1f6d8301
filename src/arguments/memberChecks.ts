import { parseBytes, type Size } from '../units.js';
import { type Check, checkObject } from './checkMembers.js';
import { checkNumber, checkOneOf, checkText, checkWhole } from './checks.js';
import type { NumberRange } from './NumberRange.js';

// The checks of single values, as the tables of checkMembers take them.

/** A whole number from `least` to `most`. */
export function whole(least: number, most?: number): Check {
  return (name, value) => {
    checkWhole(name, value, least, most);
  };
}

/** A number of the range. */
export function number(range: NumberRange): Check {
  return (name, value) => {
    checkNumber(name, value, range);
  };
}

/** One of these words. */
export function oneOf(...among: readonly string[]): Check {
  return (name, value) => {
    checkOneOf(name, value, among);
  };
}

/** Text. @param expected what it says, in words */
export function text(expected?: string): Check {
  return (name, value) => {
    checkText(name, value, expected);
  };
}

/** An object with whatever members. */
export function object(name: string, value: unknown): void {
  checkObject(name, value);
}

/** A size in bytes, above 0. */
export function size(name: string, value: unknown): void {
  parseBytes(value as Size, name);
}
