import { ModelFileError } from '../../errors/ModelFileError.js';
import { formatBytes } from '../../units.js';
import { HEADER_LIMITS } from './limits.js';
import { printable } from './printable.js';

/** The bytes of one tensor in one file. */
export interface NamedRange {
  readonly name: string;
  readonly offset: number;
  readonly bytes: number;
}

/** Ranges by where they begin; empty ones before others. */
export function sortRanges<Range extends NamedRange>(ranges: readonly Range[]): Range[] {
  return [...ranges].sort((a, b) => a.offset - b.offset || a.bytes - b.bytes);
}

/** @throws ModelFileError if two of the ranges share a byte */
export function checkNoOverlap(path: string, ranges: readonly NamedRange[]): void {
  let previous: NamedRange | undefined;
  for (const range of sortRanges(ranges)) {
    if (previous && range.offset < previous.offset + previous.bytes) {
      throw new ModelFileError(
        path,
        `tensor ${printable(range.name)}`,
        `bytes from ${range.offset} on`,
        `no overlap with tensor ${printable(previous.name)}, whose bytes end at ${previous.offset + previous.bytes}`,
      );
    }
    previous = range;
  }
}

/**
 * Counts roughly what a header's values take in memory, before they are made, and ends reading when that is out of
 * proportion to the file: a few bytes of a file can ask for an object that takes hundreds.
 */
export class HeaderBudget {
  readonly #limit: number;
  #used = 0;

  constructor(
    readonly path: string,
    fileBytes: number,
  ) {
    this.#limit = Math.min(HEADER_LIMITS.memoryBytes, 2 ** 20 + 16 * fileBytes);
  }

  /** @throws ModelFileError if `bytes` more would exceed the budget */
  charge(bytes: number): void {
    this.#used += bytes;
    if (this.#used > this.#limit) {
      throw new ModelFileError(
        this.path,
        'header',
        `values that take more than ${formatBytes(this.#limit)} of memory`,
        'a header in proportion to its file',
      );
    }
  }
}
