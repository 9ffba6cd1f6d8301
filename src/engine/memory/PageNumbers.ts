import type { RowPages } from './RowPages.js';

/**
 * Numbers for the pages that rows share, for engines that have pages of their own for them. None comes twice, as pages
 * do.
 */
export class PageNumbers {
  private readonly numbers = new Map<number, number>();
  private next = 0;

  constructor(private readonly pageTokens: number) {}

  /** Tells what others have to know of a row that has just got its pages; undefined where it shares none. */
  sharedBy({ entries, shareablePages, sharedTokens, copy }: RowPages): SharedPrefix | undefined {
    if (shareablePages === 0 && !copy) return undefined;
    const shared = Math.floor(sharedTokens / this.pageTokens);
    return {
      pages: entries.slice(0, shared).map((page) => this.numberOf(page)),
      ...(copy && { copy: { page: this.numberOf(copy.from), position: copy.position } }),
      own: entries.slice(shared, shareablePages).map((page) => {
        this.numbers.set(page, this.next);
        return this.next++;
      }),
    };
  }

  /** The page is nobody's any more: the number that it had. */
  free(page: number): number {
    const number = this.numberOf(page);
    this.numbers.delete(page);
    return number;
  }

  private numberOf(page: number): number {
    const number = this.numbers.get(page);
    if (number === undefined) throw new RangeError(`page ${page} is not one that rows share`);
    return number;
  }
}

/**
 * The facts of a row's pages that engines which compute the same rows have to know. Pages that rows share have numbers,
 * given by the engine that decides on them.
 */
export interface SharedPrefix {
  /** The numbers of the pages that its table begins with, which others have computed. */
  readonly pages: readonly number[];
  /** The page that its own first one begins as a copy of, and its first position that is not copied. */
  readonly copy?: { readonly page: number; readonly position: number };
  /** The numbers of its own pages, from the first, as far as others may share them from now on. */
  readonly own: readonly number[];
}
