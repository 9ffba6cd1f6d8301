import type { RowRange } from '../grid/Square.js';
import type { PageTable } from '../grid/PageTable.js';
import { firstSeen } from '../grid/CacheLaw.js';
import type { StagedPages } from './PagePlacement.js';

/** The rules that decide beside a batch which of its pages come to a GPU. */
export interface FetchRules {
  readonly pageTokens: number;
  /** From this number on pages are on the GPU for good. */
  readonly firstGpuPage: number;
  /** Pages that one buffer has places for. Default: any number. */
  readonly bufferPages?: number | undefined;
}

/** The pages of a batch that come to a GPU, and go back. */
export interface FetchedPages extends StagedPages {
  /**
   * Groups of rows after one another whose pages a buffer holds at once. The pages of the first come ahead of the
   * square, those of the others while it attends.
   */
  readonly groups: number;
}

/**
 * Pages of one layer that come to a GPU for a batch, where those in memory and on disk do, or the first of them, and
 * those with new tokens, which go back whole. What several rows have in common comes once; where a buffer does not hold
 * the pages of all rows, once for each group of rows that it holds those of: the rule of
 * native/model/FetchedPages.cpp. Pure.
 *
 * @param window the layer's attention window in tokens; 0 = all positions
 */
export function fetchedPages(
  rows: Iterable<readonly [RowRange, PageTable]>,
  { pageTokens, firstGpuPage, bufferPages = Infinity }: FetchRules,
  window: number,
): FetchedPages {
  /** Pages of the group's rows that are only read, and places that all of its pages take. */
  let whole = new Set<number>();
  let places = 0;
  let [loads, stores, groups] = [0, 0, 1];
  for (const [{ firstPosition, tokens }, { entries, attendedPages = Infinity }] of rows) {
    const elsewhere = (page: number): boolean => page < attendedPages && (entries[page] ?? 0) < firstGpuPage;
    const current = Math.floor(firstPosition / pageTokens);
    const seen = Math.floor(firstSeen(window, firstPosition) / pageTokens);
    const read: number[] = [];
    for (let page = seen; page < current; page++) if (elsewhere(page)) read.push(entries[page] ?? 0);
    const last = Math.floor((firstPosition + tokens - 1) / pageTokens);
    let changed = 0;
    for (let page = current; page <= last; page++) if (elsewhere(page)) changed++;
    let come = read.filter((page) => !whole.has(page));
    if (places > 0 && places + come.length + changed > bufferPages) {
      groups++;
      places = 0;
      whole = new Set();
      come = read;
    }
    for (const page of come) whole.add(page);
    places += come.length + changed;
    loads += come.length + (firstPosition % pageTokens > 0 && elsewhere(current) ? 1 : 0);
    stores += changed;
  }
  return { loads, stores, groups };
}
