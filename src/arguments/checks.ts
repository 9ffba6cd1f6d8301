import { UsageError } from '../errors/UsageError.js';
import { found } from './found.js';

/** @throws UsageError unless it is a whole number from `least` to `most` */
export function checkWhole(name: string, value: unknown, least: number, most = Number.MAX_SAFE_INTEGER): asserts value is number {
  if (typeof value === 'number' && Number.isSafeInteger(value) && value >= least && value <= most) return;
  const range = most === Number.MAX_SAFE_INTEGER ? `of at least ${least}` : `from ${least} to ${most}`;
  throw new UsageError(`${name}: found ${found(value)}, expected a whole number ${range}`);
}

/** @throws UsageError unless it is one of these */
export function checkOneOf<const T>(name: string, value: unknown, among: readonly T[]): asserts value is T {
  if (!(among as readonly unknown[]).includes(value)) throw new UsageError(`${name}: found ${found(value)}, expected one of ${among.join(', ')}`);
}

/** @throws UsageError unless it is undefined or a function */
export function checkFunction(name: string, value: unknown): void {
  if (value !== undefined && typeof value !== 'function') throw new UsageError(`${name}: found ${found(value)}, expected a function`);
}

/** @throws UsageError unless it is undefined or a boolean */
export function checkBoolean(name: string, value: unknown): void {
  if (value !== undefined && typeof value !== 'boolean') throw new UsageError(`${name}: found ${found(value)}, expected true or false`);
}

/** @throws UsageError unless it is undefined or an AbortSignal, of whatever realm */
export function checkSignal(name: string, value: unknown): void {
  if (value === undefined) return;
  const { aborted, addEventListener } = (typeof value === 'object' && value !== null ? value : {}) as Partial<AbortSignal>;
  if (typeof aborted !== 'boolean' || typeof addEventListener !== 'function') throw new UsageError(`${name}: found ${found(value)}, expected an AbortSignal`);
}
