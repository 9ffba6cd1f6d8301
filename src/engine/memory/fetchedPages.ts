import type { RowRange } from '../grid/Square.js';
import type { PageTable } from '../grid/PageTable.js';
import type { StagedPages } from './PagePlacement.js';

/** What decides beside a batch which of its pages come to a GPU. */
export interface FetchRules {
  readonly pageTokens: number;
  /** From this number on pages are on the GPU for good. */
  readonly firstGpuPage: number;
}

/**
 * Pages of one layer that come to a GPU for a batch, where those in memory and on disk do, and those with new tokens,
 * which go back wholly. What several rows have in common comes once. Pure.
 *
 * @param window the layer's attention window in tokens; 0 = all positions
 */
export function fetchedPages(
  rows: Iterable<readonly [RowRange, PageTable]>,
  { pageTokens, firstGpuPage }: FetchRules,
  window: number,
): StagedPages {
  const whole = new Set<number>();
  let [begun, stores] = [0, 0];
  for (const [{ firstPosition, tokens }, { entries }] of rows) {
    const elsewhere = (page: number): boolean => (entries[page] ?? 0) < firstGpuPage;
    const current = Math.floor(firstPosition / pageTokens);
    const seen = window === 0 ? 0 : Math.floor(Math.max(0, firstPosition - window + 1) / pageTokens);
    for (let page = seen; page < current; page++) if (elsewhere(page)) whole.add(entries[page] ?? 0);
    if (firstPosition % pageTokens > 0 && elsewhere(current)) begun++;
    const last = Math.floor((firstPosition + tokens - 1) / pageTokens);
    for (let page = current; page <= last; page++) if (elsewhere(page)) stores++;
  }
  return { loads: whole.size + begun, stores };
}
