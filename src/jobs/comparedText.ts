import { createHash } from 'node:crypto';
import { sortedJson } from '../arguments/sortedJson.js';

/** Longer texts are compared by their digests. */
const WHOLE_UNITS = 2 ** 16;

/** A value as a text to compare, without blanks at its ends; undefined where there is none. */
export function comparedText(value: unknown): string | undefined {
  const text = textOf(value)?.trim();
  if (text === undefined || text === '') return undefined;
  return text.length > WHOLE_UNITS ? `${text.slice(0, 64)}… ${createHash('sha256').update(text).digest('hex')}` : text;
}

/** Undefined for a value that leads to itself, as a program may hand over: no answer could be that. */
function textOf(value: unknown): string | undefined {
  if (value === undefined || value === null) return undefined;
  if (typeof value === 'string' || typeof value === 'number' || typeof value === 'bigint') return String(value);
  try {
    return sortedJson(value);
  } catch {
    return undefined;
  }
}

/**
 * Writes what is said to be right as an answer of the same kind would be written: `True`, as pandas has it, is the
 * truth value true, `4.0` the number 4, and members of an object stand in any order. A text is itself.
 */
export function asAnswer(expected: string, given: unknown): string {
  const kind = given instanceof Number ? 'number' : typeof given;
  if (kind === 'boolean')
    return { true: 'true', '1': 'true', false: 'false', '0': 'false' }[expected.toLowerCase()] ?? expected;
  if (kind === 'number') {
    const value = Number(expected);
    return Number.isFinite(value) ? String(value) : expected;
  }
  if (kind !== 'object') return expected;
  try {
    return comparedText(JSON.parse(expected)) ?? expected;
  } catch {
    return expected;
  }
}
