import { UsageError } from '../errors/UsageError.js';
import { found } from './found.js';
import { membersOf } from './isObject.js';
import { isWithin, rangeWords, wholeRange, type NumberRange } from './NumberRange.js';

/** @throws UsageError unless it is a whole number from `least` to `most` */
export function checkWhole(name: string, value: unknown, least: number, most?: number): asserts value is number {
  checkNumber(name, value, wholeRange(least, most));
}

/** @throws UsageError unless it is one of these */
export function checkOneOf<const T>(name: string, value: unknown, among: readonly T[]): asserts value is T {
  if (!(among as readonly unknown[]).includes(value))
    throw new UsageError(`${name}: found ${found(value)}, expected one of ${among.join(', ')}`);
}

/** @throws UsageError unless it is undefined or a function */
export function checkFunction(name: string, value: unknown): void {
  if (value !== undefined && typeof value !== 'function')
    throw new UsageError(`${name}: found ${found(value)}, expected a function`);
}

/** @throws UsageError unless it is undefined or a boolean */
export function checkBoolean(name: string, value: unknown): void {
  if (value !== undefined && typeof value !== 'boolean')
    throw new UsageError(`${name}: found ${found(value)}, expected true or false`);
}

/** @throws UsageError unless it is undefined or an AbortSignal, of whatever realm */
export function checkSignal(name: string, value: unknown): void {
  if (value === undefined) return;
  const { aborted, addEventListener } = membersOf(value);
  if (typeof aborted !== 'boolean' || typeof addEventListener !== 'function')
    throw new UsageError(`${name}: found ${found(value)}, expected an AbortSignal`);
}

/** @throws UsageError unless it is a number of the range */
export function checkNumber(name: string, value: unknown, range: NumberRange): asserts value is number {
  if (!isWithin(value, range))
    throw new UsageError(`${name}: found ${found(value)}, expected ${rangeWords(range, value)}`);
}

/** @throws UsageError unless it is a string */
export function checkText(name: string, value: unknown, expected = 'a string'): asserts value is string {
  if (typeof value !== 'string') throw new UsageError(`${name}: found ${found(value)}, expected ${expected}`);
}
