import { ModelFileError } from '../../errors/ModelFileError.js';
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
