import { found } from '../arguments/found.js';
import { isWithin, rangeWords, wholeRange } from '../arguments/NumberRange.js';
import { UsageError } from '../errors/UsageError.js';

/** So many results have to be there before a share of them says anything. */
const LEAST_RESULTS = 100;

/** How many rows of a job may fail: so many, or a share of them. */
export type MaxErrors = number | `${number}%`;

/** Tells when more rows have failed than may. */
export class ErrorLimit {
  readonly #most: number;
  readonly #share: number;

  /** @param rows of the input, where they are known */
  constructor(
    maxErrors: MaxErrors | undefined,
    private readonly rows: number | undefined,
  ) {
    this.#most = typeof maxErrors === 'number' ? maxErrors : Infinity;
    this.#share = typeof maxErrors === 'string' ? (shareOf(maxErrors) ?? 1) : 1;
  }

  /** @param done results, those that failed among them */
  exceeded(failed: number, done: number): boolean {
    if (failed > this.#most) return true;
    if (this.#share === 1) return false;
    return this.rows === undefined
      ? done >= LEAST_RESULTS && failed > this.#share * done
      : failed > this.#share * this.rows;
  }
}

/** @throws UsageError unless it is a count or a share */
export function checkMaxErrors(name: string, value: unknown): asserts value is MaxErrors {
  if (isWithin(value, wholeRange(0)) || (typeof value === 'string' && shareOf(value) !== undefined)) return;
  throw new UsageError(
    `${name}: found ${found(value)}, expected ${rangeWords(wholeRange(0), value)}, or a share of the rows from 0% to 100%`,
  );
}

/** Reads `12.5%` as a share of 1; undefined for what is no share from 0% to 100%. */
export function shareOf(text: string): number | undefined {
  const share = /^\d+(\.\d+)?%$/.test(text) ? Number(text.slice(0, -1)) / 100 : NaN;
  return share <= 1 ? share : undefined;
}
