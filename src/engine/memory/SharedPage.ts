import type { SharedStretch } from '../schedules/PathChecker.js';
import type { RowId } from '../grid/Square.js';

/** Who computes the tokens of a page. */
export interface PageWriter {
  readonly row: RowId;
  /** All positions below have been issued, in every layer: whatever is issued next finds them. */
  readonly written: number;
}

/** A page of the cache that several rows may have in their tables. */
export interface SharedPage {
  /** After the last position that is known of it. */
  readonly end: number;
  /** Its page of the cache, as page tables name it, once a row has taken one for it. */
  page: number | undefined;
  /** Its pages in the further groups of layers. */
  further: readonly number[];
  /** Who computes it, or has. */
  writer: PageWriter | undefined;
  /** Rows that have the page in their tables. */
  holders: number;
  /** Rows that are about to copy what they share of it. */
  readers: number;
}

/**
 * Up to which position the page has been computed, or is about to be before whatever is issued next; 0 where there is
 * none.
 */
export function computedUpTo({ page, end, writer }: SharedPage): number {
  return page === undefined || !writer ? 0 : Math.min(end, writer.written);
}

export function isUsed({ holders, readers }: SharedPage): boolean {
  return holders > 0 || readers > 0;
}

/** Tells whether all of the page is there; what is not when its row has ended never will be. */
export function isComputed(page: SharedPage): boolean {
  return computedUpTo(page) >= page.end;
}

/**
 * Who has computed the first tokens of a prompt, stretch by stretch: those of whole pages, then those of the page that
 * is copied. Pure.
 */
export function stretchesOf(
  pages: readonly SharedPage[],
  source: SharedPage | undefined,
  tokens: number,
): SharedStretch[] {
  const stretches: SharedStretch[] = [];
  const add = ({ writer }: SharedPage, end: number): void => {
    if (!writer) return;
    if (stretches.at(-1)?.row === writer.row) stretches.pop();
    stretches.push({ row: writer.row, end });
  };
  for (const page of pages) add(page, page.end);
  if (source) add(source, tokens);
  return stretches;
}
